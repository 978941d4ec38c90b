"""A log beside a list of what it should have, through everything that can be done with it, crashes included."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.kit.log.faulty_files import IDENTITY, FaultyFiles, abandon, segments_in
from tests.kit.log.log_model import LogModel, groups
from tidewheel.pubsub.log.errors import LogFull
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.log_records import HEAD_BYTES


class LogMachine(LogModel):
    """The log, and the marks that it had."""

    log: Log

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.begin_model()
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
    def stored_bytes(self) -> int:
        return sum(path.stat().st_size for path in segments_in(self.directory))

    def settle(self) -> None:
        super().settle()
        self.marks.append((self.directory / "mark").read_bytes())

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
        super().begin_segment()
        self.former = segments_in(self.directory)[-1].read_bytes()

    @precondition(lambda self: self.log.is_segment_due)
    @rule()
    def begin_segment_when_due(self) -> None:
        self.begin_segment()

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

    @invariant()
    def has_a_file_for_each_segment(self) -> None:
        assert not hasattr(self, "log") or len(self.log.segments()) == len(segments_in(self.directory))


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
