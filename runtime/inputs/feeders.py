"""The processes other than the driver that feed a dataflow, as a worker sees them."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidewheel.runtime.errors import FeederGone, JobError
from tidewheel.runtime.messages.feeder_status import FeederName, FeederStatus
from tidewheel.runtime.messages.statistics import InputStatistics

_LONGEST_LOOK_S = 5.0


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a feeder that claims a handle.

    Attributes:
        owner: in words, the process that has the handle; None if the handle now belongs to the feeder.
        snapshot: the number of the first snapshot in which a new feeder takes part.
    """

    owner: str | None = None
    snapshot: int = 0


@dataclass(slots=True)
class _Feeder:
    name: FeederName
    heard: float
    death: Callable[[], str | None]
    status: FeederStatus = field(default_factory=lambda: FeederStatus(None))

    def gone(self, reason: str) -> FeederGone:
        inputs = ", ".join(map(repr, sorted(self.status.inputs))) or "an input"
        return FeederGone(
            f"{self.name.process} fed {inputs} and has gone without closing its handle, so what it had to send is "
            f"incomplete: {reason}"
        )


def watch_actor(actor: Any) -> Callable[[], str | None]:
    """Return a function that says how an actor has died; it returns None while the actor lives, and never waits.

    A call of the actor stays pending, and fails as soon as the actor's process is gone, even if Ray restarts the actor.
    As long as the function exists, it keeps the actor alive.
    """
    import ray

    ready = actor.__ray_ready__.options(max_task_retries=0)
    pending = [ready.remote()]

    def death() -> str | None:
        if not ray.wait(pending, timeout=0)[0]:
            return None
        try:
            ray.get(pending[0])
        except ray.exceptions.RayError as error:
            return str(error)
        pending[0] = ready.remote()
        return None

    return death


@dataclass(eq=False)
class Feeders:
    """Watches the feeders of one dataflow; thread-safe.

    Args:
        silence_s: how many seconds a feeder may be silent. If this process stood still, as on a machine that slept,
            only a few seconds of that time count, since the feeder may have stood still too.
    """

    silence_s: float
    clock: Callable[[], float]
    watch: Callable[[Any], Callable[[], str | None]] = watch_actor
    snapshot: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _feeders: dict[int, _Feeder] = field(default_factory=dict)
    _owners: dict[int, int] = field(default_factory=dict)
    """By handle: the number of the feeder that has or had it. Nothing else is kept of a feeder that has left."""
    _gone: dict[str, InputStatistics] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._checked_at = self.clock()

    def begin_snapshot(self, number: int) -> tuple[int, ...]:
        """Begin a snapshot; return the feeders that take part. For later feeders, this snapshot has already begun."""
        with self._lock:
            self.snapshot = number
            return tuple(self._feeders)

    def claim(self, handle: int, feeder: FeederName) -> Claim:
        """Assign a handle to the first process that claims it; tell later processes the owner."""
        with self._lock:
            owner = self._owners.setdefault(handle, feeder.number)
            if owner != feeder.number:
                known = self._feeders.get(owner)
                return Claim("a process that has left since" if known is None else known.name.process)
            if feeder.number not in self._feeders:
                death = (lambda: None) if feeder.actor is None else self.watch(feeder.actor)
                self._feeders[feeder.number] = _Feeder(feeder, self.clock(), death)
            return Claim(snapshot=self.snapshot)

    def hear(self, number: int, status: FeederStatus) -> None:
        with self._lock:
            feeder = self._feeders.get(number)
            if feeder is None:
                return
            feeder.heard, feeder.status = self.clock(), status
            if status.is_leaving:
                del self._feeders[number]
                _add(self._gone, status.inputs)

    def lose(self, number: int, reason: str) -> None:
        """Record that the connection to a feeder broke; raise FeederGone unless the feeder had left."""
        with self._lock:
            if number in self._feeders:
                raise self._feeders[number].gone(reason)

    def check(self) -> None:
        """Check all feeders; call this often.

        Raises:
            FeederGone: a feeder with open handles has died or is silent.
            JobError: a feeder has dropped a handle without closing it.
        """
        with self._lock:
            before, self._checked_at = self._checked_at, self.clock()
            missed_s = max(0.0, self._checked_at - before - _LONGEST_LOOK_S)
            for feeder in self._feeders.values():
                feeder.heard = min(feeder.heard + missed_s, self._checked_at)
                if feeder.status.given_up is not None:
                    raise JobError(
                        f"{feeder.name.process} has given up a handle that it had not closed, so what it had to send "
                        f"is incomplete: {feeder.status.given_up}"
                    )
                reason = feeder.death()
                silent_s = self._checked_at - feeder.heard
                if reason is None and silent_s > self.silence_s:
                    reason = f"it has given no sign of life for {silent_s:.0f} s (RuntimeConfig.hang_timeout_s)"
                if reason is not None:
                    raise feeder.gone(reason)

    def processes(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(feeder.name.process for feeder in self._feeders.values())

    def statistics(self) -> dict[str, InputStatistics]:
        with self._lock:
            found = dict(self._gone)
            for feeder in self._feeders.values():
                _add(found, feeder.status.inputs)
        return found


def _add(totals: dict[str, InputStatistics], inputs: Mapping[str, InputStatistics]) -> None:
    for name, one in inputs.items():
        totals[name] = totals.get(name, InputStatistics()) + one
