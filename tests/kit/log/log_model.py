"""A log of either kind beside a list of what it should have: the model, and the rules that hold for both."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidewheel.pubsub.log.opening import AnyLog
from tidewheel.storage.log_records import HEAD_BYTES, Entry, Record

payloads = (
    st.binary(max_size=30)
    | st.integers(100, 900).map(bytes)
    | st.integers(1000, 70_000).map(lambda size: b"%d" % size * (size // 5))
)
groups = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 255), st.lists(payloads, max_size=3)), max_size=4)


class LogModel(RuleBasedStateMachine):
    """The model: records that are durable, records that are not yet, and how many were before each snapshot."""

    log: AnyLog

    def begin_model(self) -> None:
        """Begin with a log that has nothing, and a first snapshot of that."""
        self.durable: list[Record] = []
        self.pending: list[Record] = []
        self.removed = 0
        self.snapshots = [0]

    @property
    def last_tick(self) -> int:
        """The tick before which nothing more may come."""
        return max([record.tick for record in self.durable[-1:] + self.pending[-1:]], default=-1)

    def settle(self) -> None:
        """Take all records for durable."""
        self.durable += self.pending
        self.pending = []

    def entries(self, group: list[tuple[int, int, list[bytes]]]) -> list[Entry]:
        tick = max(0, self.last_tick)
        made = []
        for step, kind, parts in group:
            tick += step
            made.append(Entry(tick, kind, tuple(parts)))
        return made

    @rule(group=groups)
    def append(self, group: list[tuple[int, int, list[bytes]]]) -> None:
        made = self.entries(group)
        self.log.append(made)
        self.pending += [Record(entry.tick, entry.kind, b"".join(entry.parts)) for entry in made]

    @rule()
    def begin_segment(self) -> None:
        count = len(self.durable) + len(self.pending)
        self.log.begin_segment(b"%d" % count)
        self.settle()
        self.snapshots.append(count)

    @rule(back=st.integers(-1, 40))
    def trim(self, back: int) -> None:
        tick = self.last_tick - back
        self.log.trim(tick)
        self.forget(tick)

    def forget(self, tick: int) -> bool:
        """Remove the segments that have only records before a tick; return whether there were any."""
        had = len(self.snapshots)
        while len(self.snapshots) > 1 and self.last_before(self.snapshots[1]) < tick:
            self.snapshots.pop(0)
        self.removed = self.snapshots[0]
        return len(self.snapshots) < had

    def last_before(self, count: int) -> int:
        """Return the tick of the last of so many records."""
        return self.durable[count - 1].tick if count else -1

    @rule(back=st.integers(-3, 30), max_bytes=st.sampled_from([0, 1, 100, 5000, 1 << 20]))
    def read(self, back: int, max_bytes: int) -> None:
        first_tick = max(0, self.last_tick - back)
        expected = [record for record in self.durable[self.removed :] if record.tick >= first_tick]
        found = self.log.read(first_tick, max_bytes)
        assert found == expected[: len(found)]
        sizes = [(record.tick, HEAD_BYTES + len(record.payload)) for record in found]
        if found:
            assert sum(size for tick, size in sizes if tick != found[-1].tick) < max(max_bytes, 1)
        if len(found) < len(expected):
            assert found
            assert sum(size for _, size in sizes) >= max_bytes
            assert expected[len(found)].tick > found[-1].tick

    @rule(back=st.integers(-3, 30))
    def replay(self, back: int) -> None:
        tick = max(-1, self.last_tick - back)
        if self.last_before(self.removed) > tick:
            return
        replay = self.log.snapshot_at(tick)
        count = int(replay.snapshot)
        assert count in self.snapshots
        assert list(replay.records) == [record for record in self.durable[count:] if record.tick <= tick]
        assert all(record.tick <= tick for record in self.durable[:count])

    @property
    def stored_bytes(self) -> int:
        """The size of all that is stored."""
        raise NotImplementedError

    @invariant()
    def tells_what_there_is(self) -> None:
        if not hasattr(self, "log"):
            return
        kept = self.durable[self.removed :]
        assert self.log.last_tick == self.last_before(len(self.durable))
        assert self.log.first_tick == (kept[0].tick if kept else self.log.last_tick + 1)
        assert self.log.total_bytes <= self.stored_bytes
        segments = self.log.segments()
        assert len(segments) == len(self.snapshots)
        assert [one.ended_s for one in segments[:-1]] == [one.begun_s for one in segments[1:]]
