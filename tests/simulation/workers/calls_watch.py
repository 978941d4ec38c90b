"""The check that each step schedules each operator once at most, and the first step all of them."""

from collections.abc import Sequence
from typing import Protocol

from tests.kit.simulation.violation import ViolationError
from tests.simulation.workers.watch import Sent, Watch
from tidewheel.runtime.worker.worker_core import WorkerCore


class Performer(Protocol):
    """An operator on one worker that takes part.

    Attributes:
        calls: how often it has been called.
    """

    calls: int

    def use_outside(self, choice: int) -> None:
        """Use a token between two steps, as another thread may."""


class CallsWatch(Watch):
    """Counts how often a step calls each operator.

    Args:
        cores: the workers.
        performers: for each worker, its operators that take part.
    """

    def __init__(self, cores: Sequence[WorkerCore], performers: Sequence[Sequence[Performer]]) -> None:
        self._cores = cores
        self._performers = performers
        self._calls: list[int] = []

    def stepping(self, worker: int) -> None:
        """Note how often operators have been called."""
        self._calls = [performer.calls for performer in self._performers[worker]]

    def stepped(self, worker: int, sent: Sent) -> None:
        """Compare."""
        core = self._cores[worker]
        for performer, calls in zip(self._performers[worker], self._calls, strict=True):
            if not calls and not performer.calls and core.is_idle and not core.flow.is_held:
                raise ViolationError("schedule", f"an operator of worker {worker} was left out of its first step")
            if performer.calls > calls + 1:
                raise ViolationError("schedule", f"worker {worker} scheduled an operator twice in one step")
