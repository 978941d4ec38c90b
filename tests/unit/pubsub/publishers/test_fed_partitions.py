"""One worker that feeds several partitions, or none."""

import pickle
from typing import Any

import pytest

from tests.kit.exactly_once.fed import PipedConnection, handles
from tidewheel.progress import Antichain, IntegerDomain
from tidewheel.pubsub.messages.encoded_message import decode
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate, WorkerPosition
from tidewheel.pubsub.publishers.connection import RayConnection
from tidewheel.pubsub.publishers.fed_partitions import FedPartitions
from tidewheel.pubsub.publishers.feeding import feeder_of, moved
from tidewheel.pubsub.publishers.sent_events import SavedEvents

INTEGERS = IntegerDomain()


def fed(*partitions: int) -> tuple[FedPartitions, list[PipedConnection]]:
    connections = [PipedConnection(INTEGERS, partition) for partition in partitions]
    return FedPartitions("topic", INTEGERS, connections), connections


def sent(connection: PipedConnection) -> list[Any]:
    """Return and remove what a partition was sent: times of batches, and moves."""
    events = [decode(connection.feed.pipe.popleft()) for _ in range(len(connection.feed.pipe))]
    return [event.time if isinstance(event, DataMessage) else event.updates for event in events]  # type: ignore[union-attr]


def test_how_a_frontier_has_moved() -> None:
    """What stays is not told."""
    assert moved(Antichain(INTEGERS, [0]), Antichain(INTEGERS, [0])) == []
    assert moved(Antichain(INTEGERS, [0]), Antichain(INTEGERS, [2])) == [(0, -1), (2, 1)]
    assert moved(Antichain(INTEGERS, [2]), Antichain(INTEGERS, [])) == [(2, -1)]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_each_partition_has_one_feeder(workers: int) -> None:
    """Also where there are fewer workers; a worker too many sends its records to one that feeds a partition."""
    made = handles(INTEGERS, workers, [PipedConnection(INTEGERS, partition) for partition in range(3)])
    assert len(made) == workers
    all_of = [one.partition for each in made if isinstance(each, FedPartitions) for one in each._connections]
    assert sorted(all_of) == [0, 1, 2]
    for worker, each in enumerate(made):
        if isinstance(each, FedPartitions):
            assert each.partition == worker
            assert all(feeder_of(one.partition, workers) == worker for one in each._connections)
        else:
            assert worker >= 3
            assert feeder_of(each.partition, workers) == each.partition < 3


def test_records_go_to_the_first_partition_and_all_move() -> None:
    """The last flush waits for all publishers."""
    connection, (first, second) = fed(1, 3)
    connection.go_on(None)
    connection.data(0, [1, 2])
    connection.frontier([(0, -1), (4, 1)])
    connection.flush()
    assert sent(first) == [0, [(0, -1), (4, 1)]]
    assert sent(second) == [[(0, -1), (4, 1)]]
    assert (first.feed.finished, second.feed.finished) == (0, 0)
    connection.frontier([(4, -1)])
    connection.flush()
    assert sent(first) == sent(second) == [[(4, -1)]]
    assert (first.feed.finished, second.feed.finished) == (1, 1)


def test_partitions_at_different_frontiers_stay_until_the_worker_has_reached_them() -> None:
    """A snapshot of several workers has them so; what it has not confirmed comes first. The end of one is kept."""
    connection, (first, second, third) = fed(0, 2, 4)
    last = LowerFrontierUpdate([(5, -1)])
    connection.go_on(
        {
            0: SavedEvents(WorkerPosition([3], {}), [LowerFrontierUpdate([(3, -1), (4, 1)])]),
            2: SavedEvents(WorkerPosition([6], {}), []),
            4: SavedEvents(WorkerPosition([5], {}), [last]),
        }
    )
    assert (sent(first), sent(second), sent(third)) == ([[(3, -1), (4, 1)]], [], [[(5, -1)]])
    connection.flush()
    assert third.feed.finished, "the worker waits for the end that it has from the snapshot"
    connection.frontier([(4, -1), (5, 1)])
    connection.frontier([(5, -1), (8, 1)])
    connection.flush()
    assert sent(first) == [[(4, -1), (5, 1)], [(5, -1), (8, 1)]]
    assert sent(second) == [[(6, -1), (8, 1)]]
    assert sent(third) == []
    saved = connection.saved()
    assert saved is not None
    assert {partition: one.lower for partition, one in saved.items()} == {0: [8], 2: [8], 4: []}


def test_one_publisher_without_room_holds_all_back() -> None:
    """Otherwise its share of an epoch would pile up here."""
    connection, (first, second) = fed(0, 1)
    connection.go_on(None)
    assert connection.has_room()
    assert connection.wait_for_room(lambda: None) == 0.0
    second.feed.has_room_now = False
    assert not connection.has_room()
    assert connection.wait_for_room(lambda: None) is None
    assert not connection.is_awaiting
    first.feed.is_awaiting = True
    assert connection.is_awaiting


def test_it_is_sent_to_its_worker() -> None:
    """Pickled, it is a new one."""
    made = FedPartitions("topic", INTEGERS, [RayConnection("topic", 2, INTEGERS, None, True)])
    copied = pickle.loads(pickle.dumps(made))
    assert (copied.partition, copied._connections[0].partition) == (2, 2)
    assert copied.saved() is None
    copied.close()
