"""The limit on the epochs that a partition may begin before they are complete at a probe."""

from collections.abc import Callable
from dataclasses import dataclass

from tidewheel.progress import Antichain, Time


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits the number of epochs that a partition has begun and that are incomplete at a probe."""

    frontier: Callable[[], Antichain]
    most: int

    def lets_go_to(self, time: Time, begun: list[Time]) -> bool:
        """Tell whether a partition may send at ``time``; if so, add ``time`` to ``begun``."""
        if begun and begun[-1] == time:
            return True
        if len(begun) >= self.most:
            frontier = self.frontier()
            begun[:] = [time for time in begun if frontier.less_equal(time)]
        if len(begun) >= self.most:
            return False
        begun.append(time)
        return True

    def describe(self, probe: str) -> str:
        """Describe what a source waits for, given the name of the probe."""
        return f"probe {probe!r}, at which {self.most} of its epochs are not complete"
