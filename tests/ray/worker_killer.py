"""A killer of the workers of a job on Ray, for tests of recovery."""

from contextlib import suppress
from random import Random

import psutil

from tests.ray.leftovers import hosts
from tests.waiting import eventually

_THERE_WITHIN_S = 60.0


class WorkerKiller:
    """Kills workers of this cluster by SIGKILL, each time one that lives, also one that has only just begun.

    Args:
        random: chooses among those that live.

    Attributes:
        killed: the processes that were killed so far. A process takes a moment to die; it is not killed again.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.killed: list[psutil.Process] = []

    def strike(self) -> None:
        """Kill one worker; wait for one where all are dead."""
        assert eventually(self._kill_one, _THERE_WITHIN_S), f"no worker lives after {len(self.killed)} were killed"

    def _kill_one(self) -> bool:
        living = [process for process in hosts("worker") if process not in self.killed]
        with suppress(psutil.NoSuchProcess):  # it has ended since it was listed
            if living:
                victim = self._random.choice(living)
                victim.kill()
                self.killed.append(victim)
                return True
        return False
