"""The parameters of one simulation, all of which follow from its seed."""

from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

from tidewheel.runtime.messages.credit import DEFAULT_BYTES_IN_FLIGHT

Progress: TypeAlias = Literal["broadcast", "accumulated"]

_PROTOCOLS: tuple[tuple[Progress, bool], ...] = (
    ("broadcast", False),
    ("broadcast", True),
    ("accumulated", False),
    ("accumulated", True),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is fixed before the first event.

    Attributes:
        seed: decides everything: these parameters, the dataflow, what its operators do, and the schedule.
        workers: how many workers there are.
        progress: how progress travels.
        hold_back: whether batches that move no frontier are held back.
        events: how many events there are before the end is brought about.
        leaks: whether operators may forget to discard a token.
        bytes_in_flight: how many bytes each worker may answer for before sources wait.
    """

    seed: int
    workers: int
    progress: Progress
    hold_back: bool
    events: int
    leaks: bool
    bytes_in_flight: int

    @classmethod
    def of(cls, seed: int) -> "Scenario":
        """Return the scenario of a seed; four seeds in a row have each kind of progress with and without hold-back."""
        random = Random(f"{seed} scenario")
        progress, hold_back = _PROTOCOLS[seed % len(_PROTOCOLS)]
        return cls(
            seed,
            workers=random.choice((1, 2, 2, 3, 3, 4, 5)),
            progress=progress,
            hold_back=hold_back,
            events=random.choice((80, 120, 160, 240)),
            leaks=random.random() < 0.15,
            bytes_in_flight=random.choice((0, 1000, 3000, DEFAULT_BYTES_IN_FLIGHT)),
        )

    def random(self, purpose: str) -> Random:
        """Return a source of random choices of its own for each purpose."""
        return Random(f"{self.seed} {purpose}")

    def describe(self) -> str:
        """Return the parameters for people."""
        held = "held back while it moves no frontier" if self.hold_back else "sent at once"
        return (
            f"seed {self.seed}: {self.workers} workers, {self.progress} progress, {held}, "
            f"at most {self.bytes_in_flight} bytes in flight"
        )
