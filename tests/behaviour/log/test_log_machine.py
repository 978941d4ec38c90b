"""A log beside a list of what it should have, through everything that can be done with it, crashes included."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.kit.log.faulty_files import IDENTITY, FaultyFiles, abandon, segments_in
from tidewheel.pubsub.log.errors import LogFull
from tidewheel.pubsub.log.record_format import HEAD_BYTES, Entry, Record
from tidewheel.pubsub.log.segmented_log import Log

payloads = st.binary(max_size=30) | st.integers(1000, 70_000).map(lambda size: b"%d" % size * (size // 5))
groups = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 255), st.lists(payloads, max_size=3)), max_size=4)


class LogMachine(RuleBasedStateMachine):
    """The model: records that are durable, records that are not yet, and how many were before each snapshot."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.durable: list[Record] = []
        self.pending: list[Record] = []
        self.removed = 0
        self.snapshots = [0]
        self.marks: list[bytes] = []
        self.open()

    def open(self) -> None:
        self.files = FaultyFiles()
        self.log = Log(self.directory, IDENTITY, segment_bytes=500, files=self.files, snapshot=b"0")

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.directory)

    @property
    def last_tick(self) -> int:
        """The tick before which nothing more may come."""
        return max([record.tick for record in self.durable[-1:] + self.pending[-1:]], default=-1)

    def settle(self) -> None:
        self.durable += self.pending
        self.pending = []
        self.marks.append((self.directory / "mark").read_bytes())

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

    @rule(group=groups, room=st.integers(0, 300))
    def append_to_a_disk_that_is_full(self, group: list[tuple[int, int, list[bytes]]], room: int) -> None:
        made = self.entries(group)
        size = sum(HEAD_BYTES + sum(map(len, entry.parts)) for entry in made)
        self.files.room = min(room, size - 1)
        if made:
            try:
                self.log.append(made)
            except LogFull:
                pass
            else:
                raise AssertionError("there was no room")
        self.files.room = None

    @rule()
    def sync(self) -> None:
        self.log.sync()
        self.settle()

    @rule()
    def begin_segment(self) -> None:
        count = len(self.durable) + len(self.pending)
        self.log.begin_segment(b"%d" % count)
        self.former = segments_in(self.directory)[-1].read_bytes()
        self.settle()
        self.snapshots.append(count)

    @precondition(lambda self: self.log.is_segment_due)
    @rule()
    def begin_segment_when_due(self) -> None:
        self.begin_segment()

    @rule(back=st.integers(-1, 40))
    def trim(self, back: int) -> None:
        tick = self.last_tick - back
        self.log.trim(tick)
        kept = [count for count in self.snapshots if self.snapshots[-1] == count or not self.is_before(count, tick)]
        self.removed = min(self.snapshots[-1], *kept)
        self.snapshots = [count for count in self.snapshots if count >= self.removed]

    def is_before(self, count: int, tick: int) -> bool:
        """Tell whether all records of the segment that begins after ``count`` of them are before a tick."""
        following = next(later for later in self.snapshots if later > count)
        return self.durable[following - 1].tick < tick

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.settle()
        self.open()
        assert self.log.cut_bytes == 0

    @rule()
    def kill(self) -> None:
        abandon(self.log, self.files)
        self.open()
        self.settle()
        assert self.log.cut_bytes == 0

    @rule(part=st.floats(0, 1), older=st.integers(0, 3), filler=st.sampled_from([b"", b"\0" * 50, b"\xd7rec" * 20]))
    def lose_power(self, part: float, older: int, filler: bytes) -> None:
        """Of what was not synced some bytes may be there, and something else behind; the mark may be an older one.

        In a file that is written over that is what it had before.
        """
        durable_bytes = self.log.segments()[-1].size
        written_bytes = durable_bytes + sum(HEAD_BYTES + len(record.payload) for record in self.pending)
        abandon(self.log, self.files)
        path = segments_in(self.directory)[-1]
        data = path.read_bytes()
        kept = durable_bytes + round(part * (written_bytes - durable_bytes))
        is_used_file = len(data) > written_bytes
        if is_used_file:
            filler = self.former[kept:]
            assert len(filler) == len(data) - kept
        path.write_bytes(data[:kept] + filler)
        if self.marks:
            (self.directory / "mark").write_bytes(self.marks[max(0, len(self.marks) - 1 - older)])
        self.open()
        end = durable_bytes
        for record in self.pending:
            end += HEAD_BYTES + len(record.payload)
            if end > kept:
                break
            self.durable.append(record)
        self.pending = []
        whole = self.log.segments()[-1].size
        assert self.log.cut_bytes == kept + len(filler) - whole or is_used_file
        assert self.log.cut_bytes <= written_bytes - whole or not is_used_file
        self.settle()

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
        if self.removed and tick < self.durable[self.removed - 1].tick:
            return
        replay = self.log.snapshot_at(tick)
        count = int(replay.snapshot)
        assert count in self.snapshots
        assert list(replay.records) == [record for record in self.durable[count:] if record.tick <= tick]
        assert all(record.tick <= tick for record in self.durable[:count])

    @invariant()
    def tells_what_there_is(self) -> None:
        if not hasattr(self, "log"):
            return
        kept = self.durable[self.removed :]
        assert self.log.last_tick == (self.durable[-1].tick if self.durable else -1)
        assert self.log.first_tick == (kept[0].tick if kept else self.log.last_tick + 1)
        assert self.log.total_bytes <= sum(path.stat().st_size for path in segments_in(self.directory))
        segments = self.log.segments()
        assert len(segments) == len(segments_in(self.directory))
        assert [one.ended_s for one in segments[:-1]] == [one.begun_s for one in segments[1:]]


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
