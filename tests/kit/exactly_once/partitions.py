"""A pubend with a real log, whose thread is the test; somebody who reads it; and disks that fail."""

import errno
import os
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.messages.delivery_messages import Ack, KnowledgeMessage, Nack, Ranges, Stranger
from tidewheel.pubsub.messages.encoded_message import decode, encode, size_of
from tidewheel.pubsub.messages.tick_set import TickSet
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.storage.files import Files

DOMAIN = IntegerDomain()
IDENTITY = LogIdentity("topic", 0, 1, "integers")
DEADLINE_S = 30.0


class Partition:
    """A pubend whose thread is the test, and what it has told."""

    def __init__(self, directory: Path | str, **options: Any) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.told: list[Outgoing] = []
        self.core = DurablePubend(directory, IDENTITY, DOMAIN, tell=self.told.extend, later=self._calls.put, **options)

    def settle(self) -> None:
        """Wait until all that was fed is durable, or will not be."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not self.core.writer.is_durable and self.core.error is None:
            self._calls.get(timeout=deadline_s - time.monotonic())()

    def turn(self) -> None:
        """Do what the log has said so far, without waiting."""
        while not self._calls.empty():
            self._calls.get()()

    def turn_until(self, condition: Callable[[], bool]) -> None:
        """Do what the log says until something is so, with a deadline."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            self._calls.get(timeout=deadline_s - time.monotonic())()

    def strangers(self) -> list[tuple[str, str]]:
        """Return which children were told that which readers are strangers, since this was asked last."""
        found = [(child, message.reader) for child, message in self.told if isinstance(message, Stranger)]
        self.told[:] = [told for told in self.told if not isinstance(told.message, Stranger)]
        return found

    def ack(self, reader: str, *ranges: tuple[int, int]) -> None:
        """Acknowledge for a reader that is a child."""
        self.core.ack(reader, Ack(0, {reader: ranges}))

    def send(self, time: int, *contents: bytes, index: int = 0) -> None:
        """Feed batches of one time."""
        self.core.feed(
            [encode(DataMessage(time, content, "pickle", 1), index + at) for at, content in enumerate(contents)]
        )

    def advance(self, before: int, *after: int) -> None:
        """Move the worker's frontier."""
        self.core.feed([encode(LowerFrontierUpdate([(before, -1), *((time, 1) for time in after)]))])


@contextmanager
def opened(directory: Path | str, **options: Any) -> Iterator[Partition]:
    partition = Partition(directory, **options)
    try:
        yield partition
    finally:
        partition.core.close()


class Reader:
    """A subscription that keeps what it has had and where it was.

    Attributes:
        id: of its present reader.
        had: what it has had.
        lower: the lower frontier where it began last.
    """

    def __init__(self, name: str = "reader", start: int | None = 0) -> None:
        self._name, self._start = name, start
        self._lives = 0
        self.id = ""
        self._core: Subend | None = None
        self._done = TickSet()
        self.had: list[Any] = []
        self.lower: list[Any] = []

    def attach(self, partition: Partition) -> None:
        """Begin, or go on with what the pubend says that was acknowledged."""
        self._lives += 1
        self.id = f"process/{self._name}/{self._lives}"
        begun = partition.core.subscribe(self._name, self.id, self._start, durable=True)
        self.lower = begun.frontiers.lower
        self._done.update(begun.acknowledged)
        self._core = Subend(self.id, {0: replace(begun, acknowledged=self._done.ranges())}, size_of)
        partition.core.join(self.id)

    def read(self, partition: Partition, acknowledges: int | None = None) -> None:
        """Ask, take all there is, and acknowledge the first messages of that, by default all."""
        assert self._core is not None
        for nack in self._core.ask(0.0):
            assert isinstance(nack, Nack)
            partition.core.nack(self.id, nack)
        for child, message in partition.told:
            if child == self.id:
                assert isinstance(message, KnowledgeMessage)
                self._core.receive(message, 0.0)
        partition.told.clear()
        taken = self._core.take()
        self.had += [decode(delivered.message) for delivered in taken]
        for delivered in taken[:acknowledges]:
            self._core.acknowledge(0, delivered.tick)
            self._done.add(delivered.tick, delivered.tick + 1)
        for ack in self._core.acks():
            assert isinstance(ack, Ack)
            partition.core.ack(self.id, ack)
        partition.core.look()
        partition.settle()

    @property
    def contents(self) -> list[bytes]:
        """The batches that it has had."""
        return [bytes(event.payload) for event in self.had if isinstance(event, DataMessage)]


class NoSync(Files):
    """A disk that fails when told."""

    is_broken = False

    def sync(self, descriptor: int) -> None:
        """Fail, or sync."""
        if self.is_broken:
            raise OSError(5, "Input/output error")
        super().sync(descriptor)


class NoWrite(NoSync):
    """One that takes nothing when told."""

    def write(self, descriptor: int, parts: Any, offset: int) -> int:
        """Fail, or write."""
        if self.is_broken:
            raise OSError(5, "Input/output error")
        return super().write(descriptor, parts, offset)


class Dying(Files):
    """A disk that takes so many calls and then no more, as when the process is killed."""

    def __init__(self, calls: int = 1 << 40) -> None:
        super().__init__()
        self.calls_left = calls

    def _call(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise OSError(5, "killed")

    def write(self, descriptor: int, parts: Any, offset: int) -> int:
        """Write, of the last call only a part."""
        self._call()
        return super().write(descriptor, parts if self.calls_left else [bytes(parts[0])[:7]], offset)

    def sync(self, descriptor: int) -> None:
        """Sync, or not."""
        self._call()
        super().sync(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Rename, or not."""
        self._call()
        super().rename(old, new)


class Full(Files):
    """One that has room for so many bytes more.

    Attributes:
        room: how many.
        refused: how often there was no room.
    """

    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room
        self.refused = 0

    def write(self, descriptor: int, parts: Any, offset: int) -> int:
        """Write it as a whole, or fail."""
        size = sum(map(len, parts))
        if size > self.room:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= size
        return super().write(descriptor, parts, offset)

    def allocate(self, descriptor: int, size: int) -> None:
        """Take the room, or fail."""
        missing = size - os.fstat(descriptor).st_size
        if missing > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= missing
        super().allocate(descriptor, size)

    def cut(self, descriptor: int, size: int) -> None:
        """Give back the room."""
        self.room += max(0, os.fstat(descriptor).st_size - size)
        super().cut(descriptor, size)


def cursors(core: DurablePubend) -> dict[str, Ranges]:
    """Return what each durable subscription has acknowledged, as far as it was noted."""
    return {name: one.ranges for name, one in core.subscriptions.noted.items() if not one.is_abandoned}
