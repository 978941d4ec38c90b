"""A worker that starts again, at any moment, as often as it likes: the log is what one run would have made of it."""

import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tidewheel.progress import Antichain, IntegerDomain, ProductDomain, ProtocolError, Time, TimeDomain
from tidewheel.pubsub.exactly_once.journal import (
    Journal,
    LogPlace,
    ResentDifferentlyError,
    VoidSnapshotError,
    have_all,
    next_generation,
)
from tidewheel.pubsub.messages.wire import Generation, WentBack, WorkerPosition
from tidewheel.pubsub.protocol.epochs import EpochFilter

INTEGERS = IntegerDomain()
PAIRS = ProductDomain(IntegerDomain(), IntegerDomain())

Event = tuple[Any, ...]


def send(journal: Journal, events: list[Event]) -> list[Event]:
    """Send data as ("data", time, number, checksum) and moves as ("move", changes); return what is logged of it.

    A move of nothing is logged once everything is sent.
    """
    logged: list[Event] = []
    for event in events:
        if event[0] == "data":
            _, time, number, checksum = event
            if journal.data(time, number, checksum):
                logged.append(event)
            continue
        changes = journal.frontier(event[1])
        if changes or journal.is_completed:
            if not changes:
                journal.complete()
            logged.append(("move", changes))
    return logged


def replayed(domain: TimeDomain, events: list[Event]) -> Journal:
    """Return the journal of a log."""
    journal = Journal(domain)
    for event in events:
        if event[0] == "data":
            journal.record(event[1], event[3])
        elif event[1]:
            journal.advance(event[1])
        else:
            journal.complete()
    return journal


def move(before: list[Time], after: list[Time]) -> Event:
    return ("move", [*((time, -1) for time in before), *((time, 1) for time in after)])


@st.composite
def integer_runs(draw: st.DrawFn) -> list[Event]:
    """Make up what a worker sends, to the end."""
    events: list[Event] = []
    sent: dict[int, int] = {}
    now = 0
    for kind, amount in draw(st.lists(st.tuples(st.sampled_from(["data", "move"]), st.integers(0, 3)), max_size=20)):
        if kind == "data":
            number = sent[now + amount] = sent.get(now + amount, -1) + 1
            events.append(("data", now + amount, number, draw(st.integers(0, 99))))
        elif amount:
            events.append(move([now], [now + amount]))
            now += amount
    return [*events, move([now], [])]


@given(run=integer_runs(), stops=st.lists(st.floats(0, 1), max_size=5), restores=st.booleans())
def test_starting_again_logs_nothing_twice(run: list[Event], stops: list[float], restores: bool) -> None:
    """Wherever the worker stops, and however often, and also if the publisher starts again from its log."""
    journal = Journal(INTEGERS)
    logged: list[Event] = []
    for stop in [*stops, 1.0]:
        logged += send(journal, run[: round(stop * len(run))])
        journal = Journal.restore(INTEGERS, journal.snapshot()) if restores else replayed(INTEGERS, logged)
    once = send(Journal(INTEGERS), run)
    assert [event for event in logged if event[0] == "data"] == [event for event in once if event[0] == "data"]
    assert logged == once
    assert journal.lower
    assert journal.conclude()
    assert not journal.lower


def test_partial_orders() -> None:
    """The frontier is logged once the worker is where the log is, whatever way it took."""
    journal = Journal(PAIRS)
    first = send(journal, [("data", (1, 0), 0, 5), move([(0, 0)], [(1, 0), (0, 1)]), ("data", (0, 1), 0, 6)])
    assert len(first) == 3
    journal.begin()
    again = [("data", (1, 0), 0, 5), move([(0, 0)], [(0, 1)]), ("data", (0, 1), 0, 6), move([(0, 1)], [])]
    with raises(ProtocolError):
        send(Journal(PAIRS), [move([(0, 0)], [(0, 1)]), ("data", (1, 0), 0, 5)])
    assert send(journal, again) == [("move", [((1, 0), -1)]), ("move", [])]
    assert (journal.lower, journal.conclude(), journal.lower) == ([(0, 1)], [((0, 1), -1)], [])


def test_a_partition_ends_only_when_all_have_everything() -> None:
    """A job that begins again may have to go back behind it, if another partition has not; then it all comes anew."""
    journal = Journal(INTEGERS)
    send(journal, [("data", 0, 0, 5)])
    assert journal.conclude() == []
    send(journal, [move([0], [1]), ("data", 1, 0, 6), move([1], [])])
    place = LogPlace(True, [1], 0, has_all=True)
    other = place._replace(lower=[0], has_all=False)
    assert (have_all([place, other]), have_all([place, place._replace(lower=[])])) == (False, True)
    assert not have_all([place._replace(lower=[])])
    assert not have_all([place, place._replace(generation=1)])
    generation = next_generation(INTEGERS, [place, other])
    assert generation == Generation(1, (0,))
    assert journal.begin(WorkerPosition([0], {}, generation=generation)) is not None
    assert not journal.epochs().has_all
    assert send(journal, [("data", 0, 0, 7), move([0], [])]) == [("data", 0, 0, 7), ("move", [])]
    assert journal.conclude() == [(0, -1)]
    assert journal.conclude() == []


def test_what_is_not_the_same_is_an_error() -> None:
    """Another batch in a place, fewer batches than are logged, or a batch that is missing."""
    journal = Journal(INTEGERS)
    send(journal, [("data", 0, 0, 5), ("data", 0, 1, 6)])
    journal.begin()
    with raises(ResentDifferentlyError):
        journal.data(0, 0, 7)
    with raises(ProtocolError):
        journal.data(0, 3, 7)
    assert not journal.data(0, 0, 5)
    with raises(ResentDifferentlyError):
        journal.frontier([(0, -1), (1, 1)])


def test_the_frontier_does_not_go_back() -> None:
    """An error, as from any worker."""
    journal = Journal(INTEGERS)
    assert journal.frontier([(0, -1), (5, 1)]) == [(0, -1), (5, 1)]
    with raises(ProtocolError):
        journal.frontier([(5, -1), (3, 1)])


def test_what_is_complete_needs_no_memory() -> None:
    """Only epochs that are active are in a snapshot."""
    journal = Journal(INTEGERS)
    for time in range(1000):
        assert journal.data(time, 0, time)
        journal.frontier([(time, -1), (time + 1, 1)])
    journal.data(1000, 0, 1)
    assert pickle.loads(journal.snapshot()) == (WentBack(0, -1, [1000], {1000: 1}), {1000: [1]}, {}, -1, False, [])
    assert (journal.lower, journal.epochs().upper()) == ([1000], [1000])


class Counting(IntegerDomain):
    """Integers that count their comparisons."""

    __slots__ = ()
    compared = 0

    def less_equal(self, a: Time, b: Time) -> bool:
        Counting.compared += 1
        return bool(a <= b)


@pytest.mark.parametrize("is_again", [False, True])
def test_a_move_costs_what_it_completes(is_again: bool) -> None:
    """However many epochs are open; also of a worker that sends again what is logged."""
    journal, many = Journal(Counting()), 1000
    for _ in range(1 + is_again):
        journal.begin()
        send(journal, [("data", time, 0, 5) for time in range(many)])
    Counting.compared = 0
    for time in range(many):
        assert journal.frontier([(time, -1), (time + 1, 1)])
    assert Counting.compared < 60 * many


class SearchingJournal(Journal):
    """A journal whose moves look at all epochs, which is slow and plainly right."""

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]]:
        worker = deepcopy(self._worker)
        worker.update(updates := list(updates))
        for time, checksums in self._checksums.items():
            if not worker.less_equal(time) and self._sent.get(time, 0) < len(checksums):
                raise ResentDifferentlyError("the worker closed a time too early")
        return super().frontier(updates)

    def advance(self, changes: list[tuple[Time, int]]) -> None:
        checksums, ticks = dict(self._checksums), dict(self._ticks)
        super().advance(changes)
        lower = self._epochs.lower
        self._checksums = {time: found for time, found in checksums.items() if lower.less_equal(time)}
        self._ticks = {time: ticks[time] for time in self._checksums if time in ticks}


def small_times(domain: TimeDomain) -> st.SearchStrategy[Time]:
    return st.integers(0, 5) if domain is INTEGERS else st.tuples(st.integers(0, 3), st.integers(0, 3))


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call returns, or the kind of its error."""
    try:
        return call(*arguments)
    except ResentDifferentlyError:
        return ResentDifferentlyError


@given(st.data(), st.sampled_from([INTEGERS, PAIRS]))
def test_a_move_does_what_a_search_through_all_epochs_does(data: st.DataObject, domain: TimeDomain) -> None:
    """With workers that begin again at any place, are behind the log, send something else or close too early."""
    journals = [Journal(domain), SearchingJournal(domain)]
    lower, sent = Antichain(domain, [domain.minimum()]), Counter[Time]()
    times = small_times(domain)
    for tick in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.one_of(times, st.lists(times, max_size=2), st.none()))
        outcomes: list[Any] = []
        if step is None:
            lower, sent = Antichain(domain, [domain.minimum()]), Counter()
            outcomes = [journal.begin() for journal in journals]
        elif isinstance(step, list):
            after = Antichain(domain, [later(one, other) for one in lower for other in step])
            changes = [*((time, -1) for time in lower), *((time, 1) for time in after)]
            lower = after
            outcomes = [outcome(journal.frontier, changes) for journal in journals]
        elif lower.less_equal(step):
            checksum = int(data.draw(st.integers(0, 9)) == 9)
            outcomes = [outcome(journal.data, step, sent[step], checksum) for journal in journals]
            sent[step] += 1
            for journal in journals if outcomes[0] is True else ():
                journal.logged(step, tick)
        assert len({repr(one) for one in outcomes}) <= 1
        if ResentDifferentlyError in outcomes:
            return
        found = [(journal.lower, journal._checksums, journal._ticks, journal.reached) for journal in journals]
        assert found[0] == found[1]
        assert not [time for time in journals[0]._sent if not lower.less_equal(time) and time not in found[0][1]]


def later(one: Time, other: Time) -> Time:
    """Return the least time that is at or after both."""
    return max(one, other) if isinstance(one, int) else tuple(map(max, one, other))


def test_the_generation_of_all_logs() -> None:
    """A log that is a generation behind has complete what the newest one began with: the rest is of other records."""
    place = LogPlace(has_begun=True, lower=[7], generation=1, complete=(4,))
    behind, ended = LogPlace(True, [9], 0), place._replace(lower=[])
    assert next_generation(INTEGERS, [LogPlace(False, [0], 0)]) == Generation(0, (0,))
    assert next_generation(INTEGERS, [place, place._replace(lower=[6])]) == Generation(2, (6,))
    assert next_generation(INTEGERS, [behind, place]) == Generation(2, (4,))
    assert next_generation(INTEGERS, [behind, ended]) == Generation(1, (4,))
    assert next_generation(INTEGERS, [place, ended]) == Generation(1)
    journal = Journal(INTEGERS)
    returned = journal.begin(WorkerPosition([0], {}, generation=Generation(1, (0,))))
    assert returned == WentBack(1, -1, [0], {}, (0,))
    assert Journal.restore(INTEGERS, journal.snapshot()).epochs().complete == (0,)


def logged_of(journal: Journal, *events: Event, tick: int) -> None:
    """Have events logged, the last of them with a tick."""
    for kind, time, *_ in send(journal, list(events)):
        if kind == "data":
            journal.logged(time, tick)
        else:
            journal.moved(tick)


def go_back(journal: Journal, tick: int, saved: WorkerPosition, generation: Generation) -> None:
    """Have a worker begin again, with a return that is logged with a tick."""
    assert journal.begin(replace(saved, generation=generation)) is not None
    journal.moved(tick)


@pytest.mark.parametrize("restores", [False, True])
def test_a_snapshot_that_a_later_job_has_made_void_is_refused(restores: bool) -> None:
    """A job without the snapshot has made void what that takes for standing, and so would never send again.

    A later snapshot, one that takes nothing for standing, and one of epochs that are complete in all logs go on.
    """
    journal = Journal(INTEGERS)
    start = WorkerPosition([0], {})
    logged_of(journal, ("data", 0, 0, 5), tick=10)
    snapshot = WorkerPosition([0], {0: 1}, 1, number=10)
    go_back(journal, 11, start, Generation(1, (0,)))
    logged_of(journal, ("data", 0, 0, 6), tick=12)
    later = WorkerPosition([0], {0: 1}, 1, number=12)
    for number, saved in ((2, later), (3, start), (4, later)):
        journal = Journal.restore(INTEGERS, journal.snapshot()) if restores else journal
        with raises(VoidSnapshotError):
            journal.begin(replace(snapshot, generation=Generation(number, (0,))))
        if number == 4:
            with pytest.raises(VoidSnapshotError):
                journal.begin(replace(later, generation=Generation(number, (0,))))
        else:
            go_back(journal, 20 + number, saved, Generation(number, (0,)))
    go_back(journal, 30, snapshot, Generation(5, (1,)))


def test_a_snapshot_that_has_passed_what_is_void_is_refused() -> None:
    """The worker of the snapshot has passed an epoch, which is not complete in the logs of the other partitions."""
    for complete, is_refused in (((0,), True), ((1,), False)):
        journal = Journal(INTEGERS)
        logged_of(journal, ("data", 0, 0, 5), move([0], [1]), tick=10)
        snapshot = WorkerPosition([1], {}, 2, number=10)
        go_back(journal, 11, WorkerPosition([0], {}), Generation(1, (0,)))
        if is_refused:
            with pytest.raises(VoidSnapshotError):
                journal.begin(replace(snapshot, generation=Generation(2, complete)))
        else:
            go_back(journal, 12, snapshot, Generation(2, complete))


def test_the_returns_of_a_log_need_no_memory_without_end() -> None:
    """Old ones are taken together: a snapshot from between them is refused then, and a new one is not."""
    journal = Journal(INTEGERS)
    logged_of(journal, ("data", 0, 0, 5), tick=10)
    sizes = []
    for number in range(1, 1000):
        newest = WorkerPosition([0], {0: 1}, 1, number=10 * number)
        go_back(journal, 10 * number + 5, newest, Generation(number, (0,)))
        logged_of(journal, ("data", 0, 1, 6), tick=10 * number + 10)
        sizes.append(len(journal.snapshot()))
    assert sizes[-1] < 1.1 * sizes[110]
    with pytest.raises(VoidSnapshotError):
        journal.begin(WorkerPosition([0], {0: 1}, 1, Generation(1000, (0,)), number=500))
    assert journal.begin(WorkerPosition([0], {0: 1}, 1, Generation(1000, (0,)), number=9500)) is not None


@pytest.mark.parametrize("restores", [False, True])
def test_what_was_left_out_stands_once_its_place_is_known(restores: bool) -> None:
    """An epoch that is complete in this log alone: until the worker has caught up, the tick of its batch is unknown."""
    journal = Journal(INTEGERS)
    first = WorkerPosition([0], {}, generation=Generation(0, (0,)))
    journal.begin(first)
    assert journal.data(0, 0, 5)
    journal.logged(0, 10)
    assert journal.frontier([(0, -1), (1, 1)])
    journal.moved(12)
    journal = Journal.restore(INTEGERS, journal.snapshot()) if restores else journal
    journal.begin(first)
    assert not journal.data(0, 0, 5)
    assert not journal.is_sure
    assert not journal.frontier([(0, -1), (1, 1)])
    assert (journal.is_sure, journal.reached) == (True, 12)


def test_what_is_complete_everywhere_is_left_out_for_good() -> None:
    """The worker may forget at once what no return makes void: it may be more than it has room for."""
    journal = Journal(INTEGERS)
    send(journal, [("data", 0, 0, 5), move([0], [1])])
    journal.begin(WorkerPosition([0], {}, generation=Generation(1, (1,))))
    assert not journal.data(0, 0, 6)
    assert journal.is_sure


@pytest.mark.parametrize("restores", [False, True])
def test_a_subscription_that_begins_after_a_return_leaves_out_what_the_worker_had_passed(restores: bool) -> None:
    """In a partial order a log may go back behind epochs of which a part stands, and does not come again."""
    journal = Journal(PAIRS)
    send(journal, [("data", (0, 4), 0, 5), move([(0, 0)], [(1, 0)]), move([(1, 0)], [(1, 5)])])
    journal.begin(WorkerPosition([(1, 0)], {}, number=0, generation=Generation(1, ((0, 3),))))
    journal = Journal.restore(PAIRS, journal.snapshot()) if restores else journal
    snapshot = journal.epochs().snapshot()
    assert (snapshot.lower, snapshot.passed) == ([(0, 3)], ((1, 0),))
    epochs = EpochFilter(PAIRS, [snapshot])
    assert [epochs.passes(time) for time in [(0, 4), (1, 2), (1, 3)]] == [False, False, True]
