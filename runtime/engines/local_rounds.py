"""The rounds in which the dataflows of one process run on the local engine, one after the other, under one lock."""

import threading
import time
from typing import Protocol


class RoundMember(Protocol):
    """A dataflow that takes part."""

    @property
    def is_stepping(self) -> bool:
        """Whether one of its operators runs."""

    def run_own_round(self) -> bool:
        """Run one step of each of its workers; return whether there was anything to do."""

    def left_s(self) -> float | None:
        """Return for how many seconds it has nothing to do; None if that depends on others."""

    @property
    def has_work(self) -> bool:
        """Whether a round would do something."""

    @property
    def is_expecting(self) -> bool:
        """Whether another thread is going to have one of its operators scheduled."""


class LocalRounds:
    """The dataflows that run together, in the order in which they were added."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._members: list[RoundMember] = []
        self._sleepers: list[threading.Event] = []

    def join(self, member: RoundMember) -> None:
        """Let a dataflow take part from the next round on."""
        with self.lock:
            self._members.append(member)
        self.wake()

    def leave(self, member: RoundMember) -> None:
        """Have a dataflow take part no more. Idempotent."""
        with self.lock:
            if member in self._members:
                self._members.remove(member)
        self.wake()

    @property
    def is_under_way(self) -> bool:
        """Whether an operator of any dataflow runs."""
        return any(member.is_stepping for member in self._members)

    def run(self) -> bool:
        """Run every dataflow one round; return False if there was nothing to do."""
        with self.lock:
            have_run = [member.run_own_round() for member in self._members.copy()]
        return any(have_run)

    def sleep(self, deadline: float | None) -> bool:
        """Wait until an operator is to be scheduled: by the clock, or by a thread that it expects to do that.

        Returns False, at once, if neither will happen.

        Args:
            deadline: until when to wait at most, by the monotonic clock.
        """
        awake = threading.Event()
        self._sleepers.append(awake)
        try:
            with self.lock:
                left_s = [left for member in self._members if (left := member.left_s()) is not None]
                if any(member.has_work for member in self._members):
                    return True
                if not left_s and not any(member.is_expecting for member in self._members):
                    return False
            if deadline is not None:
                left_s.append(max(0.0, deadline - time.monotonic()))
            awake.wait(min(left_s, default=None))
        finally:
            self._sleepers.remove(awake)
        return True

    def wake(self) -> None:
        """End the sleep of whoever sleeps, because there may be something to do, or to say; from any thread."""
        for awake in self._sleepers.copy():
            awake.set()
