"""The cursors of durable subscriptions: a dict that outlives its process."""

import errno
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.log.faulty_files import IDENTITY, FaultyFiles, contents_of, open_log, put_contents, segments_in
from tidewheel.pubsub.log import CursorStore, LogCorrupted, LogError, LogFull, LogLocked, LogMismatch


def open_store(directory: Path, files: FaultyFiles | None = None) -> CursorStore:
    return CursorStore.open(directory, IDENTITY, files=files or FaultyFiles())


def close(store: CursorStore) -> None:
    try:
        store.close()
    except LogError:
        return


def test_cursors_are_kept(tmp_path: Path) -> None:
    """The last for each name; those that were removed are not there, nor in the way of another of that name."""
    with CursorStore.open(tmp_path / "cursors", IDENTITY) as store:
        assert dict(store.items()) == {}
        store.put("billing", b"1")
        store.put("billing", b"2")
        store.put("audit", b"")
        store.put("gone", b"3")
        store.remove("gone")
        store.remove("never there")
        store.sync()
        assert dict(store.items()) == {"billing": b"2", "audit": b""}
    with CursorStore.open(tmp_path / "cursors", IDENTITY) as store:
        assert dict(store.items()) == {"billing": b"2", "audit": b""}
        store.put("gone", b"4")
    with CursorStore.open(tmp_path / "cursors", IDENTITY) as store:
        assert dict(store.items()) == {"billing": b"2", "audit": b"", "gone": b"4"}


def test_a_cursor_that_is_the_same_costs_nothing(tmp_path: Path) -> None:
    """Nothing is written."""
    files = FaultyFiles()
    with open_store(tmp_path, files) as store:
        store.put("billing", b"1")
        files.calls.clear()
        store.put("billing", b"1")
        assert files.calls == []


def test_files_stay_small(tmp_path: Path) -> None:
    """However often cursors move; also where there are so many that they are long themselves."""
    with open_store(tmp_path / "few") as store:
        for number in range(30_000):
            store.put(f"name {number % 10}", b"%d" % number)
            if number % 100 == 0:
                store.sync()
        expected = dict(store.items())
    assert sum(path.stat().st_size for path in (tmp_path / "few").iterdir()) < 300_000
    with open_store(tmp_path / "few") as store:
        assert dict(store.items()) == expected
    files = FaultyFiles()
    with open_store(tmp_path / "many", files) as store:
        for number in range(30_000):
            store.put(f"name {number % 10_000}", b"%d" % number * 10)
            if number % 100 == 0:
                store.sync()
    assert sum(path.stat().st_size for path in (tmp_path / "many").iterdir()) < 3_000_000
    assert files.calls.count("create") < 8


def test_an_old_file_that_could_not_be_removed_is_removed_later(tmp_path: Path) -> None:
    """When the store is opened again, or becomes long again."""
    files = FaultyFiles()
    with open_store(tmp_path, files) as store:
        files.refuses["remove"] = errno.EACCES
        store.put("billing", b"x" * 300_000)
        store.sync()
        assert len(segments_in(tmp_path)) == 2
    with open_store(tmp_path) as store:
        assert len(segments_in(tmp_path)) == 1
        assert dict(store.items()) == {"billing": b"x" * 300_000}


def test_a_change_torn_at_any_byte_is_cut(tmp_path: Path) -> None:
    """What was synced is as it was then, or as a later change made it."""
    files = FaultyFiles()
    store = open_store(tmp_path / "store", files)
    store.put("billing", b"1")
    store.put("audit", b"1")
    store.sync()
    path = segments_in(tmp_path / "store")[0]
    durable = path.stat().st_size
    store.put("billing", b"2")
    first = path.stat().st_size
    store.remove("audit")
    files.stop()
    close(store)
    before = contents_of(tmp_path / "store")
    for torn in range(durable, len(before[path.name]) + 1):
        put_contents(tmp_path / "torn", before | {path.name: before[path.name][:torn]})
        expected = {"billing": b"2" if torn >= first else b"1", "audit": b"1"}
        if torn == len(before[path.name]):
            del expected["audit"]
        with open_store(tmp_path / "torn") as again:
            assert dict(again.items()) == expected


def test_a_flipped_byte_anywhere_is_named(tmp_path: Path) -> None:
    """In the snapshot as in what came after; no cursor is ever a wrong one."""
    files = FaultyFiles()
    with open_store(tmp_path / "store", files) as store:
        store.put("billing", b"1")
        store.put("audit", b"1")
        store.sync()
        store.remove("audit")
    before = contents_of(tmp_path / "store")
    for name, content in before.items():
        for place in range(len(content)):
            flipped = bytearray(content)
            flipped[place] ^= 1 << place % 8
            put_contents(tmp_path / "flipped", before | {name: bytes(flipped)})
            if name.endswith(".segment"):
                with pytest.raises(LogCorrupted, match=name):
                    open_store(tmp_path / "flipped")
            else:
                with open_store(tmp_path / "flipped") as again:
                    assert dict(again.items()) == {"billing": b"1"}


def test_a_full_disk_leaves_cursors_as_they_were(tmp_path: Path) -> None:
    """Each is the one before until it could be written; without room for a new file the old one is gone on with."""
    files = FaultyFiles()
    with open_store(tmp_path, files) as store:
        store.put("billing", b"1")
        files.room = 5
        with pytest.raises(LogFull):
            store.put("billing", b"2")
        with pytest.raises(LogFull):
            store.remove("billing")
        assert dict(store.items()) == {"billing": b"1"}
        files.room = None
        store.put("billing", b"x" * 300_000)
        files.refuses["create"] = errno.ENOSPC
        store.sync()
        store.put("billing", b"3")
        store.sync()
        files.refuses.clear()
        store.put("audit", b"1")
        store.sync()
        assert segments_in(tmp_path)[0].stat().st_size < 1000
    with open_store(tmp_path) as store:
        assert dict(store.items()) == {"billing": b"3", "audit": b"1"}


def test_a_store_is_no_log_of_messages(tmp_path: Path) -> None:
    """Nor the other way round; and one at a time has it open."""
    with open_store(tmp_path / "store"), pytest.raises(LogLocked):
        open_store(tmp_path / "store")
    with pytest.raises(LogMismatch, match="holds the log of cursors of topic 'orders'"):
        open_log(tmp_path / "store")
    with open_log(tmp_path / "log"):
        pass
    with pytest.raises(LogMismatch, match="asked for was that of cursors of topic 'orders'"):
        open_store(tmp_path / "log")


class StoreMachine(RuleBasedStateMachine):
    """The model: the cursors after each change since the last sync."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.states: list[dict[str, bytes]] = [{}]
        self.open()

    def open(self) -> None:
        self.files = FaultyFiles()
        self.store = open_store(self.directory, self.files)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)

    @rule(name=st.sampled_from("abcdef"), cursor=st.binary(max_size=4) | st.just(b"long" * 20_000))
    def put(self, name: str, cursor: bytes) -> None:
        self.store.put(name, cursor)
        self.states.append(self.states[-1] | {name: cursor})

    @rule(name=st.sampled_from("abcdef"))
    def remove(self, name: str) -> None:
        self.store.remove(name)
        self.states.append({other: cursor for other, cursor in self.states[-1].items() if other != name})

    @rule()
    def sync(self) -> None:
        self.store.sync()
        self.states = self.states[-1:]

    @rule()
    def close_and_open(self) -> None:
        self.store.close()
        self.states = self.states[-1:]
        self.open()

    @rule(cut=st.integers(0, 100), calls=st.integers(0, 8), stops_after=st.booleans())
    def end_during_a_sync(self, cut: int, calls: int, stops_after: bool) -> None:
        """The process ends after some of what a sync does, with some of what was not synced."""
        self.files.calls_left, self.files.stops_after = calls, stops_after
        try:
            self.store.sync()
        except LogError:
            pass
        else:
            self.states = self.states[-1:]
            cut = 0
        self.files.stop()
        close(self.store)
        path = segments_in(self.directory)[-1]
        durable = int.from_bytes((self.directory / "mark").read_bytes()[8:16], "little")
        number = int.from_bytes((self.directory / "mark").read_bytes()[:8], "little")
        if number == int(path.stem):
            data = path.read_bytes()
            path.write_bytes(data[: max(durable, len(data) - cut)])
        self.open()
        assert dict(self.store.items()) in self.states
        self.states = [dict(self.store.items())]

    @invariant()
    def has_what_was_put(self) -> None:
        if hasattr(self, "store"):
            assert dict(self.store.items()) == self.states[-1]


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
