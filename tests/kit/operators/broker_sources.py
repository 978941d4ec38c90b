"""A source of a broker in this process, and wrong ones that `check_source` has to refuse."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import tidewheel as tw
from tidewheel.testing import FakeBroker

Partition: TypeAlias = str | int

RECORDS: dict[Partition, list[str]] = {0: ["a", "b", "c"], 1: ["d"], "late": ["e", "f"]}
"""What `World` has in the end."""


class World:
    """Makes brokers with the records, of which the last partition comes while a job runs."""

    def __init__(self, kind: "type[Cursor]") -> None:
        self.kind = kind
        self.brokers: dict[Path, FakeBroker] = {}

    def make(self, folder: Path) -> "Cursor":
        broker = self.brokers[folder] = FakeBroker([0, 1])
        for partition in (0, 1):
            broker.send(partition, *RECORDS[partition])
        return self.kind(broker, folder)

    def grow(self, folder: Path) -> None:
        broker = self.brokers[folder]
        broker.add("late")
        broker.send("late", *RECORDS["late"])
        broker.end(1)


class Cursor(tw.Source[Any]):
    """A correct source, one record a batch."""

    look_every_s = 0.01

    def __init__(self, broker: FakeBroker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder

    def partitions(self) -> list[Partition]:
        return self.broker.partitions()

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        offset = self.broker.committed[partition] if position is None else position
        while (records := self.broker.read(partition, offset, 1)) is not None:
            if records:
                offset += 1
                yield records, offset
            else:
                yield tw.Pause(0.01)

    def saved(self, partition: Partition, position: Any) -> None:
        self.broker.commit(partition, position)


class PositionTooEarly(Cursor):
    """The position is already behind the next record."""

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        for yielded in super().open(partition, position):
            yield yielded if isinstance(yielded, tw.Pause) else (yielded[0], yielded[1] + 1)


class PositionTooLate(Cursor):
    """The position is before the record."""

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        for yielded in super().open(partition, position):
            yield yielded if isinstance(yielded, tw.Pause) else (yielded[0], yielded[1] - 1)


class AcknowledgesWhatIsRead(Cursor):
    """It acknowledges before a snapshot has the record."""

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        for yielded in super().open(partition, position):
            if isinstance(yielded, tuple):
                self.broker.commit(partition, yielded[1])
            yield yielded


class SavesWhatIsRead(Cursor):
    """It saves how far it has read, and not the position that it is told."""

    def __init__(self, broker: FakeBroker, folder: Path) -> None:
        super().__init__(broker, folder)
        self.read: dict[Partition, int] = {}

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        for yielded in super().open(partition, position):
            if isinstance(yielded, tuple):
                self.read[partition] = yielded[1]
            yield yielded

    def saved(self, partition: Partition, position: Any) -> None:
        self.broker.commit(partition, self.read.get(partition, position))


class ForgetsPartition(Cursor):
    """It lists its partitions once, and so misses one that comes later."""

    def __init__(self, broker: FakeBroker, folder: Path) -> None:
        super().__init__(broker, folder)
        self.known: list[Partition] = []

    def partitions(self) -> list[Partition]:
        self.known = self.known or super().partitions()
        return self.known


class ForgetsProgress(Cursor):
    """It begins at its beginning in each run, and not at the position that it is given."""

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        return super().open(partition, None)


class TrustsTheBroker(Cursor):
    """It goes on where the broker has it, though the run before may have written no progress there."""

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        offset = self.broker.committed[partition]
        return super().open(partition, offset)


class TakesAnErrorForTheEnd(Cursor):
    """It closes a partition whose other end does not answer."""

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        seen = self.folder / f"{partition}"
        if not seen.exists():
            seen.touch()
            return iter(())
        return super().open(partition, position)


class SkipsAfterAnError(Cursor):
    """It gives up what it has failed to read."""

    def __init__(self, broker: FakeBroker, folder: Path) -> None:
        super().__init__(broker, folder)
        self.opened: dict[Partition, int] = {}

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        self.opened[partition] = self.opened.get(partition, 0) + 1
        if self.opened[partition] > 1:
            position = (position or 0) + 1
        return super().open(partition, position)


class SharesCursor(Cursor):
    """All partitions move the same position."""

    def __init__(self, broker: FakeBroker, folder: Path) -> None:
        super().__init__(broker, folder)
        self.at: dict[str, int] = {}

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        for yielded in super().open(partition, None if position is None else position["at"]):
            if isinstance(yielded, tuple):
                self.at["at"] = yielded[1]
                yield yielded[0], self.at
            else:
                yield yielded

    def saved(self, partition: Partition, position: Any) -> None:
        super().saved(partition, position["at"])


class NumbersPartitions(Cursor):
    """The name of a partition is its place in a list that changes."""

    def partitions(self) -> list[Partition]:
        return list(range(len(super().partitions())))

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        return super().open(super().partitions()[int(partition)], position)

    def saved(self, partition: Partition, position: Any) -> None:
        super().saved(super().partitions()[int(partition)], position)


class SavesOnlyWhatIsOpen(Cursor):
    """It raises for a position that a run before has read."""

    def __init__(self, broker: FakeBroker, folder: Path) -> None:
        super().__init__(broker, folder)
        self.opened: set[Partition] = set()

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        if position is None:
            self.opened.add(partition)
        return super().open(partition, position)

    def saved(self, partition: Partition, position: Any) -> None:
        if partition not in self.opened:
            raise KeyError(partition)
        super().saved(partition, position)


class DropsTheLastBatch(Cursor):
    """It ends a partition before its last record, as one that looks at the end before it reads."""

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        before: Any = None
        for yielded in super().open(partition, position):
            if isinstance(yielded, tw.Pause):
                yield yielded
                continue
            if before is not None:
                yield before
            before = yielded


class UnpicklablePosition(Cursor):
    """No snapshot can have its position."""

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        for yielded in super().open(partition, position):
            yield yielded if isinstance(yielded, tw.Pause) else (yielded[0], threading.Lock())


WRONG: list[type[Cursor]] = [
    PositionTooEarly,
    PositionTooLate,
    AcknowledgesWhatIsRead,
    SavesWhatIsRead,
    ForgetsPartition,
    ForgetsProgress,
    TrustsTheBroker,
    TakesAnErrorForTheEnd,
    SkipsAfterAnError,
    SharesCursor,
    NumbersPartitions,
    SavesOnlyWhatIsOpen,
    DropsTheLastBatch,
    UnpicklablePosition,
]
