"""Snapshots of a publish operator: pickled, gone on from, and divided among another number of workers."""

import pickle
from collections.abc import Mapping
from functools import reduce

import pytest

from tidewheel.operators.sinks.published import Published
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, History, LowerFrontierUpdate, WorkerPosition
from tidewheel.pubsub.publishers.connection import PublisherConnection, Saved
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents

INTEGERS = IntegerDomain()
BATCH, LATER = (DataMessage(time, b"", "pickle", 1) for time in (4, 5))


class Connection(PublisherConnection):
    """Remembers what it goes on from, and has sent something since."""

    def __init__(self) -> None:
        super().__init__("topic", 0)
        self.sent = SentEvents(INTEGERS)

    def go_on(self, saved: Saved | None) -> None:
        assert not isinstance(saved, Mapping)
        self.sent = SentEvents(INTEGERS, saved)

    def saved(self) -> SavedEvents | None:
        return self.sent.saved


def test_it_is_pickled_as_the_connection_has_it() -> None:
    """Whoever goes on from it says what was confirmed, and sends the rest again."""
    published, connection = Published(INTEGERS), Connection()
    published.connect(connection)
    connection.sent.add(LowerFrontierUpdate([(0, -1), (3, 1)]))
    connection.sent.add(BATCH)
    connection.sent.durable(1)
    restored: Published = pickle.loads(pickle.dumps(published))
    following = Connection()
    restored.connect(following)
    assert restored.is_behind
    assert following.sent.position == WorkerPosition([3], {}, 1)
    assert following.sent.saved.kept == [BATCH]


def test_fewer_workers_have_all_that_had_begun() -> None:
    """The frontier is the earliest, and no batch that may not have been received is lost."""
    one = Published(INTEGERS, [5], SavedEvents(WorkerPosition([3], {4: 2}, 7), [BATCH, LowerFrontierUpdate([])]))
    other = Published(INTEGERS, [6], SavedEvents(WorkerPosition([2], {2: 1}, 3), []))
    first, *rest = one.split(3)
    assert first is one
    assert rest == [None, None]
    merged = one.merge(other)
    connection = Connection()
    merged.connect(connection)
    assert list(merged.announced) == [2]
    assert connection.sent.position == WorkerPosition([2], {4: 2, 2: 1}, 10)
    assert connection.sent.saved.kept == [BATCH]


SAVED = {
    number: SavedEvents(WorkerPosition([3 + number], {4: 2}, 7, number=number), [BATCH, LowerFrontierUpdate([])])
    for number in range(5)
}


@pytest.mark.parametrize(("workers", "later"), [(2, 3), (3, 1), (1, 4), (5, 2), (4, 5)])
def test_each_partition_with_a_log_goes_to_its_next_feeder(workers: int, later: int) -> None:
    """As it is, with its place in the log; nothing of it is left out, or comes to two of them."""
    shares = [
        Published(INTEGERS, None, {number: SAVED[number] for number in range(worker, 5, workers)} or None)
        for worker in range(workers)
    ]
    divided = [share.split(later) for share in shares]
    for worker in range(later):
        parts = [one[worker] for one in divided if one[worker] is not None]
        merged = pickle.loads(pickle.dumps(reduce(Published.merge, parts)))  # type: ignore[arg-type]
        assert merged._saved == {number: SAVED[number] for number in range(worker, 5, later)}
        assert list(merged.announced) == [3 + worker]
        assert merged.is_behind


def test_a_worker_that_feeds_no_partition_leaves_nothing() -> None:
    """Its share disappears in that of another one."""
    fed, idle = Published(INTEGERS, None, {0: SAVED[2]}), Published(INTEGERS, [9])
    for one, other in ((fed, idle), (idle, fed)):
        merged = one.merge(other)
        assert (merged._saved, list(merged.announced)) == ({0: SAVED[2]}, [5])


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 2, 0)])
def test_fewer_workers_leave_out_what_one_of_them_had_passed(order: tuple[int, ...]) -> None:
    """Its part of the epoch was published before, and does not come again."""
    passed = Published(INTEGERS, [5], SavedEvents(WorkerPosition([5], {}, 2), []))
    idle = Published(INTEGERS, [5], SavedEvents(WorkerPosition([4], {}, 1), []))
    kept: list[FeedEvent] = [BATCH, LowerFrontierUpdate([(4, -1), (5, 1)]), LATER]
    held_back = Published(INTEGERS, [5], SavedEvents(WorkerPosition([4], {}, 1), kept))
    shares = [passed, idle, held_back]
    connection = Connection()
    reduce(Published.merge, [shares[number] for number in order]).connect(connection)
    assert connection.sent.saved == SavedEvents(WorkerPosition([4], {}, 4), [LATER])


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 2, 0)])
def test_fewer_workers_have_the_history_of_all(order: tuple[int, ...]) -> None:
    """With the batches that are left out, which no publisher has any more."""
    first, second = (encode_batch(time, [(time, 1)]) for time in (3, 4))
    passed = SavedEvents(WorkerPosition([5], {}, 2, history=History((3,), ((-1, first),))), [])
    idle = SavedEvents(WorkerPosition([4], {}, 1, history=History((), ())), [])
    kept: list[FeedEvent] = [second, LowerFrontierUpdate([(4, -1), (5, 1)]), LATER]
    held_back = SavedEvents(WorkerPosition([4], {4: 1}, 1, history=History((), ((7, second),))), kept)
    shares = [Published(INTEGERS, [5], saved) for saved in (passed, idle, held_back)]
    merged = reduce(Published.merge, [shares[number] for number in order])
    assert isinstance(merged._saved, SavedEvents)
    assert merged._saved.kept == [LATER]
    assert merged._saved.position.history == History((3,), ((-1, first), (0, second), (0, second)))
