"""A log in an object store that fails, loses answers, or has another writer."""

import logging
from collections.abc import Mapping

import pytest

from tests.kit.log.faulty_files import entries, records, ticks_of
from tests.kit.log.faulty_store import FaultyStore, Objects, open_store_log
from tests.kit.messages import raises
from tidewheel.pubsub.log import store_log
from tidewheel.pubsub.log.errors import LogCorrupted, LogFailed, LogTakenOver, StoreFailed
from tidewheel.pubsub.log.object_format import object_name
from tidewheel.pubsub.log.store_log import StoreLog


@pytest.fixture
def store() -> FaultyStore:
    """A store without objects."""
    return FaultyStore(Objects())


def write(log: StoreLog, *ticks: int) -> None:
    """Make records durable, in an object of their own."""
    log.append(entries(ticks))
    log.sync()


def again(store: FaultyStore) -> StoreLog:
    """Open the log in another process."""
    return open_store_log(FaultyStore(store.objects))


def test_a_group_costs_one_request(store: FaultyStore) -> None:
    """However many records it has; without any there is no request."""
    log = open_store_log(store)
    store.calls.clear()
    log.append(entries([1, 2]))
    log.append(entries([3]))
    log.sync()
    log.sync()
    assert store.calls == [("put_new", object_name(2))]


@pytest.mark.parametrize("lost", [1, 3])
def test_a_lost_answer_doubles_nothing(store: FaultyStore, lost: int) -> None:
    """The writer finds its own object, and goes on behind it."""
    log = open_store_log(store)
    store.loses = lost
    write(log, 1)
    write(log, 2)
    assert ticks_of(log) == ticks_of(again(store)) == [1, 2]


def test_a_put_that_meets_an_earlier_try_is_tried_again(store: FaultyStore) -> None:
    """The store refuses it, as the earlier one is on its way: no other publisher has taken over."""
    log = open_store_log(store)
    store.conflicts = 2
    write(log, 1)
    assert ticks_of(again(store)) == [1]


def test_a_store_that_fails_for_a_while_is_tried_again(store: FaultyStore, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and again when it answers."""
    log = open_store_log(store)
    store.fails = 5
    with caplog.at_level(logging.WARNING):
        write(log, 1)
    assert [line.getMessage().partition(":")[2][:40] for line in caplog.records] != []
    assert len(caplog.records) == 2
    assert ticks_of(log) == [1]


def test_a_store_that_fails_for_long_ends_the_log(store: FaultyStore) -> None:
    """With what to do; nothing that was durable is lost, and what was not may be there or not."""
    log = open_store_log(store, within_s=0.0)
    write(log, 1)
    store.fails = 1
    with raises(LogFailed):
        write(log, 2)
    with raises(LogFailed):
        write(log, 3)
    assert log.trim(5) == 0
    log.close()
    assert ticks_of(again(store)) == [1]
    late = open_store_log(store, within_s=0.0)
    store.loses = 1
    with pytest.raises(LogFailed):
        write(late, 4)
    assert ticks_of(again(store)) == [1, 4]


def test_a_writer_that_was_replaced_ends(store: FaultyStore) -> None:
    """It loses the first number that it wants, so nothing of it is ever read."""
    old = open_store_log(store)
    write(old, 1)
    new = again(store)
    with raises(LogTakenOver):
        write(old, 2)
    write(new, 3)
    assert ticks_of(new) == ticks_of(again(store)) == [1, 3]
    with pytest.raises(LogTakenOver):
        old.append(entries([4]))


def test_a_writer_that_wakes_up_late_ends(store: FaultyStore) -> None:
    """Also when all that was there, and all that came since, has been removed long ago."""
    old = open_store_log(store)
    write(old, 1)
    new = again(store)
    for tick in range(2, 6):
        write(new, tick)
        new.begin_segment(b"state")
    new.trim(100)
    assert ticks_of(new) == []
    before = dict(store.objects.by_name)
    with pytest.raises(LogTakenOver):
        write(old, 7)
    assert store.objects.by_name == before
    assert again(store).last_tick == 5


def test_a_put_that_was_stored_and_removed_does_no_harm(store: FaultyStore) -> None:
    """Its answer was lost, a new writer has removed it, and then it is put once more."""
    old = open_store_log(store)
    write(old, 1)
    store.loses = 1

    def replace() -> None:
        new = again(store)
        new.begin_segment(b"state")
        new.trim(100)

    store.objects.interrupts.extend([int, replace])
    write(old, 2)  # it was durable, and the new writer has seen it
    with pytest.raises(LogTakenOver):
        write(old, 3)
    assert (again(store).last_tick, ticks_of(again(store))) == (2, [])


def test_a_store_without_conditional_writes_is_refused(store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers could not be told apart."""

    def put(name: str, data: bytes) -> bool:
        store.objects.by_name[name] = data
        return True

    monkeypatch.setattr(store, "put_new", put)
    with raises(LogFailed):
        open_store_log(store)


def test_every_flipped_byte_is_found(store: FaultyStore) -> None:
    """None of its records is delivered, wherever in an object it is."""
    log = open_store_log(store)
    write(log, 1, 2)
    write(log, 3)
    for name in (object_name(2), object_name(3)):
        whole = store.objects.by_name[name]
        for place in range(len(whole)):
            store.objects.by_name[name] = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
            with pytest.raises(LogCorrupted, match="damaged"):
                ticks_of(open_store_log(copy_of(store)))
        store.objects.by_name[name] = whole
    assert ticks_of(again(store)) == [1, 2, 3]


def copy_of(store: FaultyStore) -> FaultyStore:
    """Return a store with the same objects, which can be opened without a trace."""
    objects = Objects()
    objects.by_name.update(store.objects.by_name)
    return FaultyStore(objects)


def test_an_object_that_is_cut_is_found(store: FaultyStore) -> None:
    """Also at the end of a record, and the last one."""
    log = open_store_log(store)
    write(log, 1, 2)
    whole = store.objects.by_name[object_name(2)]
    for size in range(len(whole)):
        store.objects.by_name[object_name(2)] = whole[:size]
        with pytest.raises(LogCorrupted, match="damaged"):
            open_store_log(copy_of(store))


def test_an_object_in_the_place_of_another_is_found(store: FaultyStore) -> None:
    """Although it is whole, and of the same log."""
    log = open_store_log(store)
    write(log, 1)
    write(log, 2)
    store.objects.by_name[object_name(2)] = store.objects.by_name[object_name(3)]
    with raises(LogCorrupted):
        log.read(0, 1 << 20)
    with raises(LogCorrupted):
        again(store)


def test_a_missing_object_is_found(store: FaultyStore) -> None:
    """It is not taken for a removed one."""
    log = open_store_log(store)
    for tick in range(1, 4):
        write(log, tick)
    del store.objects.by_name[object_name(3)]
    with raises(LogCorrupted):
        again(store)
    with raises(LogCorrupted):
        log.read(0, 1 << 20)


def test_objects_that_are_merged_during_a_listing_are_not_missing(store: FaultyStore) -> None:
    """A listing takes several requests: its end is later than its beginning, and the merged object is in neither."""
    log = open_store_log(store)
    for tick in range(1, 4):
        write(log, tick)
    log.begin_segment(b"")
    before = FaultyStore(store.objects).sizes("")
    log.trim(0)
    after = FaultyStore(store.objects).sizes("")
    left = {name: size for name, size in before.items() if name <= object_name(2) or name in after}
    assert object_name(3) not in left, "it was merged"

    class Torn(FaultyStore):
        def sizes(self, prefix: str) -> Mapping[str, int]:
            return left if not any(call == "sizes" for call, _ in self.calls) and super().sizes(prefix) else after

    assert ticks_of(open_store_log(Torn(store.objects))) == [1, 2, 3]


def test_objects_that_do_not_belong_to_the_log_are_left_alone(store: FaultyStore) -> None:
    """As a note of a person."""
    store.objects.by_name["readme.txt"] = b"do not remove"
    log = open_store_log(store)
    write(log, 1)
    log.begin_segment(b"")
    log.trim(9)
    assert store.objects.by_name["readme.txt"] == b"do not remove"
    assert ticks_of(again(store)) == []


def test_complete_segments_become_one_object(store: FaultyStore) -> None:
    """So that a long log has few objects, and is opened with few requests."""
    log = open_store_log(store)
    for tick in range(1, 61):
        write(log, tick)
        if tick % 20 == 0:
            log.begin_segment(b"%d" % tick)
    log.trim(0)
    merged = {name for name in store.objects.by_name if "-" in name}
    assert len(merged) == 3
    assert len(store.objects.by_name) == 5  # the claim stays, and the last segment has its first object
    assert ticks_of(log, 1000) == list(range(1, 61))
    opening = copy_of(store)
    reopened = open_store_log(opening)
    assert len(opening.calls) < 10
    assert ticks_of(reopened) == list(range(1, 61))


def test_a_segment_is_due_after_many_small_objects(store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few bytes they have."""
    monkeypatch.setattr(store_log, "MOST_OBJECTS", 4)
    log = open_store_log(store)
    for tick in range(3):
        assert not log.is_segment_due
        write(log, tick)
    assert log.is_segment_due


def test_what_could_not_be_removed_is_removed_later(store: FaultyStore) -> None:
    """By the same writer, or by the next one after it was killed."""
    log = open_store_log(store)
    write(log, 1)
    log.begin_segment(b"a")
    write(log, 2)
    log.begin_segment(b"b")
    objects = len(store.objects.by_name)
    store.objects.interrupts.extend([int, lambda: setattr(store, "fails", 1)])
    with pytest.raises(StoreFailed):
        log.trim(2)
    assert len(store.objects.by_name) > objects
    assert log.read(0, 1 << 20) == records([2])
    new = again(store)
    assert ticks_of(new) == [2]
    new.trim(0)
    log.trim(0)
    assert object_name(2) not in store.objects.by_name
    assert ticks_of(again(store)) == [2]


def writes_before_each_claim(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch, most: int, *, begins_segments: bool = False
) -> list[int]:
    """Have the writer before put an object whenever this one wants to put one; return the ticks that it has put."""
    old = open_store_log(FaultyStore(store.objects))
    put_new, ticks = store.put_new, list[int]()

    def put(name: str, data: bytes) -> bool:
        if len(ticks) < most:
            ticks.append(len(ticks) + 1)
            write(old, ticks[-1])
            if begins_segments and ticks[-1] % 5 == 0:
                old.begin_segment(b"%d" % ticks[-1])
        return put_new(name, data)

    monkeypatch.setattr(store, "put_new", put)
    return ticks


@pytest.mark.parametrize("begins_segments", [False, True])
def test_a_writer_that_writes_all_the_time_is_replaced(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch, *, begins_segments: bool
) -> None:
    """It takes many numbers first. What it has put is read one by one, so the objects are listed once."""
    ticks = writes_before_each_claim(store, monkeypatch, 30, begins_segments=begins_segments)
    new = open_store_log(store)
    assert len(ticks) == 30
    assert store.calls.count(("sizes", "")) == 1
    write(new, 31)
    other = again(store)
    assert ticks_of(new) == ticks_of(other) == [*ticks, 31]
    assert [one.snapshot() for one in new.segments()] == [one.snapshot() for one in other.segments()]
    assert [one.ended_s for one in new.segments()] == [one.ended_s for one in other.segments()]


def test_a_writer_that_cannot_be_replaced_is_told(store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what is at work, and what to do."""
    writes_before_each_claim(store, monkeypatch, 1000)
    with raises(LogTakenOver):
        open_store_log(store)
