"""A log in an object store beside a list of what it should have, with writers that die, or live on unknowingly."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.kit.log.faulty_store import FaultyStore, Killed, Objects, open_store_log
from tests.kit.log.log_model import LogModel, groups
from tidewheel.pubsub.log import object_recovery, object_segment
from tidewheel.pubsub.log.errors import LogError, LogTakenOver
from tidewheel.pubsub.log.object_format import numbers_of
from tidewheel.pubsub.log.store_log import StoreLog
from tidewheel.storage.log_records import Entry

some_group = groups.filter(bool)
A = TypeVar("A")
R = TypeVar("R")


def one_by_one(call: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """Make calls without threads, so that a seed repeats a run."""
    return [call(argument) for argument in arguments]


@pytest.fixture(autouse=True)
def in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call the store from no other thread."""
    monkeypatch.setattr(object_segment, "at_once", one_by_one)
    monkeypatch.setattr(object_recovery, "at_once", one_by_one)


class StoreLogMachine(LogModel):
    """The log, and the writers that it had before."""

    log: StoreLog

    @initialize()
    def begin(self) -> None:
        self.objects = Objects()
        self.begin_model()
        self.former: list[StoreLog] = []
        self.open()

    def open(self) -> None:
        self.store = FaultyStore(self.objects)
        self.log = open_store_log(self.store, segment_bytes=500, snapshot=b"0")

    @property
    def stored_bytes(self) -> int:
        return sum(map(len, self.objects.by_name.values()))

    @rule(fails=st.integers(0, 2), loses=st.integers(0, 2))
    def sync(self, fails: int, loses: int) -> None:
        """Calls fail and answers are lost, and nothing is lost or doubled."""
        if self.pending:
            self.store.fails, self.store.loses = fails, loses
        self.log.sync()
        self.settle()
        self.store.fails = self.store.loses = 0

    def forget(self, tick: int) -> bool:
        """Remove segments from the model; an object states where the log begins, and has what waits."""
        is_removed = super().forget(tick)
        if is_removed:
            self.settle()
        return is_removed

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.settle()
        self.open()

    @rule()
    def replace(self) -> None:
        """A writer that lives is replaced; what it had not written is lost, and it does not know."""
        self.former.append(self.log)
        self.pending = []
        self.open()

    @precondition(lambda self: self.former)
    @rule(group=some_group, which=st.integers(0, 10))
    def former_writes(self, group: list[tuple[int, int, list[bytes]]], which: int) -> None:
        """It learns that it was replaced by the first record that it writes, however late."""
        log = self.former[which % len(self.former)]
        before = dict(self.objects.by_name)
        with pytest.raises(LogTakenOver, match="another publisher has opened the log"):
            self.write(log)
        assert self.objects.by_name == before

    @staticmethod
    def write(log: StoreLog) -> None:
        log.append([Entry(1 << 40, 1, (b"never",))])
        log.sync()

    @precondition(lambda self: self.former)
    @rule(which=st.integers(0, 10), after=st.integers(0, 12))
    def former_tidies_in_between(self, which: int, after: int) -> None:
        """It merges and removes objects before the next calls of the others."""
        log = self.former[which % len(self.former)]
        assert isinstance(log._store, FaultyStore)
        log._store.is_main = False
        tidy = suppressing(lambda: log.trim(0))
        self.objects.interrupts.extend([*[int] * after, tidy])

    @rule(group=groups, calls=st.integers(0, 8), action=st.sampled_from(["sync", "begin_segment", "trim"]))
    def kill(self, group: list[tuple[int, int, list[bytes]]], calls: int, action: str) -> None:
        """The writer ends in the middle of a call; what it wrote last is in the log as a whole, or not."""
        self.append(group)
        tick = self.durable[self.removed].tick if len(self.durable) > self.removed else 0
        count = len(self.durable) + len(self.pending)
        self.store.calls_left = calls
        with suppress(Killed):
            if action == "sync":
                self.log.sync()
            elif action == "begin_segment":
                self.log.begin_segment(b"%d" % count)
            else:
                self.log.trim(tick)
        self.open()
        found = [int(segment.snapshot()) for segment in self.log.segments()]
        possible = [*self.snapshots, count] if action == "begin_segment" else self.snapshots
        assert found in ([*possible[-len(found) :]], [*self.snapshots[-len(found) :]])
        self.snapshots, self.removed = found, found[0]
        records = self.log.read(0, 1 << 40)
        if records != self.durable[self.removed :]:
            self.settle()
            assert records == self.durable[self.removed :]
        self.pending = []

    @rule()
    def leaves_nothing(self) -> None:
        """After a trim there are the objects of the log, and the claims."""
        self.objects.interrupts.clear()
        self.former.clear()
        self.log.trim(0)
        self.forget(0)
        names = {name for segment in self.log.segments() for name in segment.names}
        claims = {name for name in self.objects.by_name if (numbers_of(name) or (0,))[0] in self.log._claims}
        assert self.objects.by_name.keys() == names | claims


def suppressing(call: Callable[[], object]) -> Callable[[], object]:
    """Return the call without its errors."""

    def called() -> None:
        with suppress(LogError):
            call()

    return called


TestStoreLogMachine = StoreLogMachine.TestCase
TestStoreLogMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
