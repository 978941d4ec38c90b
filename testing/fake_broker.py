"""A broker in this process, for tests of dataflows that read from brokers.

Its source is an example of a correct source.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Source, Unit

_BROKERS: "WeakValueDictionary[str, FakeBroker]" = WeakValueDictionary()


class FakeBroker:
    """A broker in this process; its partitions have records in order, each with an offset.

    Committed records are removed, as from a queue: reading before a committed offset raises an error. The broker is
    thread-safe, and serves jobs on the local engine.

    Args:
        partitions: the names of the partitions, or their number.

    Attributes:
        committed: the offset up to which each partition is committed.

    >>> import tidewheel as tw
    >>> broker = FakeBroker(2)
    >>> broker.send(0, "high", "low")
    >>> broker.send(1, "high")
    >>> broker.end()
    >>> flow = tw.Dataflow("tides")
    >>> _ = flow.source("tides", broker.source()).capture("tides")
    >>> with tw.run(flow, engine="local") as job:
    ...     job.wait(timeout_s=10)
    ...     sorted(record for captured in job.captured("tides") for record in captured.batch)
    ['high', 'high', 'low']
    >>> broker.committed
    {0: 2, 1: 1}
    """

    def __init__(self, partitions: int | Iterable[Partition] = 1) -> None:
        names = range(partitions) if isinstance(partitions, int) else partitions
        self._name = uuid4().hex
        self._changed = threading.Condition()
        self._records: dict[Partition, list[Any]] = {name: [] for name in names}
        self._ended: set[Partition] = set()
        self._errors: deque[Exception] = deque()
        self.committed: dict[Partition, int] = dict.fromkeys(self._records, 0)
        _BROKERS[self._name] = self

    def __reduce__(self) -> Any:
        return _found, (self._name,)

    # ------------------------------------------------------------------ for the test

    def add(self, partition: Partition) -> None:
        """Add a partition; raise ValueError if it exists."""
        with self._changed:
            if partition in self._records:
                raise ValueError(f"FakeBroker: there is a partition {partition!r} already")
            self._records[partition] = []
            self.committed[partition] = 0
            self._changed.notify_all()

    def send(self, partition: Partition, *records: Any) -> None:
        """Add records to a partition."""
        with self._changed:
            self._records[partition].extend(records)
            self._changed.notify_all()

    def end(self, *partitions: Partition) -> None:
        """End partitions after their records; without names, end all partitions."""
        with self._changed:
            self._ended.update(partitions or self._records)
            self._changed.notify_all()

    def fail(self, times: int = 1, error: Exception | None = None) -> None:
        """Let the next ``times`` calls of the source raise ``error``, by default ConnectionError."""
        with self._changed:
            self._errors.extend([error or ConnectionError("the broker does not answer")] * times)
            self._changed.notify_all()

    def source(
        self, *, batch_size: int = 100, look_every_s: float | None = None, pause_s: float = 0.01
    ) -> "FakeBrokerSource":
        """Return a source of this broker.

        Args:
            batch_size: the greatest number of records in a batch.
            look_every_s: how often to look for new partitions, in seconds; None to look once.
            pause_s: the seconds of a pause while there are no records.
        """
        return FakeBrokerSource(self, batch_size, look_every_s, pause_s)

    # ------------------------------------------------------------------ for the source

    def partitions(self) -> list[Partition]:
        """Return the names of the partitions, without those that have ended and are committed."""
        with self._changed:
            self._raise()
            return [
                name
                for name, records in self._records.items()
                if name not in self._ended or self.committed[name] < len(records) or not records
            ]

    def read(self, partition: Partition, offset: int, most: int) -> list[Any] | None:
        """Return at most ``most`` records of a partition from an offset on; None at the partition's end."""
        with self._changed:
            self._raise()
            if offset < self.committed[partition]:
                raise LookupError(
                    f"FakeBroker: partition {partition!r} is committed up to {self.committed[partition]}, and is read "
                    f"from {offset}: those records are gone"
                )
            found = self._records[partition][offset : offset + most]
            return None if not found and partition in self._ended else found

    def commit(self, partition: Partition, offset: int) -> None:
        """Commit a partition up to an offset; an offset before the committed one has no effect."""
        with self._changed:
            self._raise()
            self.committed[partition] = max(offset, self.committed[partition])

    def end_of(self, partition: Partition) -> int:
        """Return the offset after the last record of a partition."""
        with self._changed:
            return len(self._records[partition])

    def _raise(self) -> None:
        if self._errors:
            raise self._errors.popleft()


def _found(name: str) -> FakeBroker:
    if name not in _BROKERS:
        raise LookupError("a FakeBroker is in one process: use it on the local engine, and keep it while the job runs")
    return _BROKERS[name]


class FakeBrokerSource(Source[Any]):
    """A source of a `FakeBroker`; the position is the offset of the next record."""

    def __init__(self, broker: FakeBroker, batch_size: int, look_every_s: float | None, pause_s: float) -> None:
        self.broker = broker
        self.batch_size = batch_size
        self.look_every_s = look_every_s
        self.pause_s = pause_s

    def partitions(self) -> list[Partition]:
        """Return the broker's partitions."""
        return self.broker.partitions()

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[Any] | Pause]:
        """Read from ``position`` on or, for None, from the committed offset on."""
        offset = self.broker.committed[partition] if position is None else position
        while (records := self.broker.read(partition, offset, self.batch_size)) is not None:
            if not records:
                yield Pause(self.pause_s)
                continue
            offset += len(records)
            yield Fetched(records, offset)

    def saved(self, partition: Partition, position: int) -> None:
        """Commit the offset."""
        self.broker.commit(partition, position)

    def behind(self, partition: Partition, position: int | None) -> Mapping[Unit, float]:
        """Return how many records the broker has after an offset."""
        offset = self.broker.committed[partition] if position is None else position
        return {"records": self.broker.end_of(partition) - offset}
