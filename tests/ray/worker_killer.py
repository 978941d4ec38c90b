"""A killer of the processes of a job on Ray, for tests of recovery."""

from contextlib import suppress
from random import Random

import psutil

from tests.ray.leftovers import hosts
from tests.waiting import eventually

_THERE_WITHIN_S = 60.0


class WorkerKiller:
    """Kills processes of this cluster by SIGKILL, each time one that lives, also one that has only just begun.

    Args:
        random: chooses among those that live.

    Attributes:
        killed: the processes that were killed so far. A process takes a moment to die; it is not killed again.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.killed: list[psutil.Process] = []

    def strike(self, kind: str = "worker") -> None:
        """Kill one process of a kind; wait for one where all are dead."""
        killed = eventually(lambda: self._kill_one(kind), _THERE_WITHIN_S)
        assert killed, f"no {kind} lives after {len(self.killed)} processes were killed"

    def _kill_one(self, kind: str) -> bool:
        living = [process for process in hosts(kind) if process not in self.killed]
        with suppress(psutil.NoSuchProcess):  # it has ended since it was listed
            if living:
                victim = self._random.choice(living)
                victim.kill()
                self.killed.append(victim)
                return True
        return False
