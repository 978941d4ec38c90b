"""A job as readers of its results see it: what it has captured, and the collections that it keeps."""

from abc import abstractmethod
from contextlib import suppress
from itertools import count
from threading import RLock
from typing import Any

from tidewheel.progress import TidewheelError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.engines.captured import CapturedBatches
from tidewheel.runtime.engines.looking_up import LookedUp, LookUp
from tidewheel.runtime.engines.remembering_job import RememberingJob, known
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.feed import Feed


class ReadableJob(RememberingJob):
    """A job with results that the driver can read."""

    _lock: RLock

    def __init__(self, plan: Plan, workers: int) -> None:
        super().__init__(plan, workers)
        self._questions = count()
        self._read: dict[str, tuple[Feed, int]] = {}
        self._captured: dict[str, CapturedBatches] = {}
        """All that was captured, by name, once the job is complete."""

    @abstractmethod
    def _fetch_captured(self, name: str) -> CapturedBatches:
        """Return what all workers have captured."""

    def captured(self, name: str) -> CapturedBatches:
        """Return what ``stream.capture(name)`` has kept so far, worker by worker, each in order of arrival.

        It is a sequence, and equals a list. All of a time is there once a probe has passed it, and all there is after
        `wait`. What a complete job has captured can also be read after its ``with`` block. On Ray the batches stay on
        the workers' nodes, in the object store, until the sequence is first looked at.

        Raises:
            JobError: there is no capture of that name, or the job has failed, or was stopped before it was complete.
                Or the program has neither waited for the job nor looked at a probe, so that it cannot know what is
                there.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("squares")
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [1, 2])]]))
        >>> _ = numbers.map(lambda n: n * n).capture("squares")
        >>> with tw.run(flow, engine="local") as job:
        ...     pass  # its end waits until the job is complete
        >>> job.captured("squares")
        [Captured(time=0, batch=[1, 4])]
        """
        known(self.plan, "capture", name, self.plan.captures)
        if name in self._captured:
            return self._captured[name]
        self._check_alive()
        if self.is_complete:
            self._captured[name] = self._fetch_captured(name)
            return self._captured[name]
        if not self._has_waited:
            raise JobError(
                f"job {self.name!r} is not complete, and nothing was waited for, so capture {name!r} may have nothing "
                f"yet: call job.wait() first, or wait for a probe, job.probe(name).wait_until(time) "
                f"({self._feed.describe()})"
            )
        return self._fetch_captured(name)

    def _keep_captured(self) -> None:
        """Fetch what the job, which is complete and about to end, has captured."""
        for name in self.plan.captures:
            with suppress(TidewheelError):  # such as for records that cannot be pickled: then it cannot be read later
                self._captured.setdefault(name, self._fetch_captured(name))

    def lookup(self, name: str, key: Any, *, time: int | None = None, timeout: float | None = 10.0) -> LookedUp:
        """Return the values that a collection has for a key, or several, at one epoch that is complete.

        The collection is one of which the dataflow has said ``collection.lookups(name)``. The workers that own the keys
        are asked. They answer between two steps, also if the dataflow is idle. On Ray any thread may ask. A later call
        never returns an earlier epoch, unless ``time`` says so or the job has gone back to a snapshot.

        Args:
            name: that of the look-ups.
            key: a key, or a list of keys.
            time: the epoch; the answer waits until that is complete. None takes the newest that is complete, and waits
                if there is none yet. Workers keep no earlier epoch than the newest, but for calls that wait for it.
            timeout: in seconds; None waits as long as the job lives.

        Raises:
            JobError: there are no look-ups of that name, a key cannot be hashed, the epoch is kept no more, or the job
                is paused, has failed or was stopped. On the local engine also if it has nothing left to do and the
                epoch is not complete.
            Rewound: the job has gone back to a snapshot, and the program has to send something again.
            TimeoutError: there is no answer within ``timeout`` seconds.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("prices")
        >>> changes = [(0, [("tea", 3), ("milk", 1)]), (1, [("tea", 4)])]
        >>> prices = flow.source("prices", tw.IterableSource([changes])).as_collection(upserts=True).lookups("prices")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.lookup("prices", "tea").values, job.lookup("prices", ["tea", "milk", "oil"])
        ([4], LookedUp(time=None, counts={'tea': {4: 1}, 'milk': {1: 1}, 'oil': {}}))
        """
        known(self.plan, "look-up", name, self.plan.lookups)
        given: object = time
        if given is not None and not (isinstance(given, int) and given >= 0):
            raise JobError(f"look-up {name!r} is as of an epoch, a whole number from 0 on, not as of {time!r}")
        self._check_alive()
        if not self._started:
            raise JobError(f"job {self.name!r} is paused, and its workers answer no look-up then: call start() first")
        keys = key if isinstance(key, list) else [key]
        by_worker: dict[int, list[Any]] = {}
        try:
            distinct = list(dict.fromkeys(keys))
            for one, worker in zip(distinct, owners_of(distinct, self.workers), strict=True):
                by_worker.setdefault(worker, []).append(one)
        except TypeError as error:
            raise JobError(f"look-up {name!r}: no record can have such a key: {error}") from error
        return LookUp(self, name, by_worker or {0: []}, time, timeout).run()

    def _read_until(self, name: str, feed: Feed) -> int:
        """Return the latest epoch as of which a collection was read by a feed; 0 if it was not."""
        by, time = self._read.get(name, (feed, 0))
        return time if by is feed else 0

    def _note_read(self, name: str, feed: Feed, time: int) -> None:
        with self._lock:
            self._read[name] = feed, max(time, self._read_until(name, feed))
