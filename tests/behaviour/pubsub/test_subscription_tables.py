"""The state that has come so far, as a table."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.pubsub.local_job import LocalJob, send_end, send_epoch
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.publications.publication import RunningPublication
from tidewheel.pubsub.subscribers.subscribing import subscribe

SOON_S = 0.05
LONG_S = 30.0


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"tables/{request.node.name}"


@pytest.fixture
def running(topic: str) -> Iterator[RunningPublication]:
    """A topic of a job that runs by itself; the test is that job."""
    publication = LocalJob(runs_by_itself=True).publish(topic)
    yield publication
    publication.finish(None, 1)


def test_what_has_come_comes_once(running: RunningPublication, topic: str) -> None:
    """All whole epochs, in order; what is not complete comes the next time."""
    with subscribe(topic) as subscription:
        assert subscription.to_arrow().num_rows == 0
        send_epoch(running, 0, [{"n": 1}, {"n": 2}])
        send_epoch(running, 1, [{"n": 3}])
        running.handles[0].data(2, [{"n": 4}])
        running.handles[0].flush()
        assert subscription.to_arrow().to_pydict() == {"n": [1, 2, 3]}
        assert subscription.to_arrow().num_columns == 0
        send_epoch(running, 2, [{"n": 5}])
        send_end(running, 3)
        assert subscription.to_arrow().to_pydict() == {"n": [4, 5]}
        assert subscription.to_arrow().num_rows == 0
        assert subscription.has_ended


@pytest.mark.parametrize("until", [1, 5], ids=["an epoch", "one that never comes"])
def test_it_waits_until_an_epoch_is_complete(running: RunningPublication, topic: str, until: int) -> None:
    """Or the topic has ended; later epochs that are there come, too."""
    with subscribe(topic) as subscription:
        send_epoch(running, 0, [{"n": 0}])
        with raises(TimeoutError):
            subscription.to_arrow(until=until, timeout_s=SOON_S)
        send_epoch(running, 1, [{"n": 1}])
        send_epoch(running, 2, [{"n": 2}])
        send_end(running, 3)
        assert subscription.to_arrow(until=until, timeout_s=LONG_S).to_pydict() == {"n": [0, 1, 2]}
        assert subscription.to_arrow(until=until).num_rows == 0


def test_an_epoch_that_was_complete_before_is_not_waited_for(running: RunningPublication, topic: str) -> None:
    """A subscriber that came after it gets nothing of it."""
    send_epoch(running, 0, [{"n": 0}])
    with subscribe(topic) as subscription:
        assert subscription.to_arrow(until=0).num_rows == 0


def test_after_a_deadline_epochs_may_be_read_otherwise(running: RunningPublication, topic: str) -> None:
    """Nothing is lost between the two."""
    with subscribe(topic) as subscription:
        send_epoch(running, 0, [{"n": 0}])
        with pytest.raises(TimeoutError):
            subscription.to_arrow(until=1, timeout_s=SOON_S)
        assert next(subscription.epochs()).records == [{"n": 0}]


def test_arrow_stays_arrow(running: RunningPublication, topic: str) -> None:
    """Without rows in between, though batches differ in their columns: what one lacks is null."""
    with subscribe(topic) as subscription:
        send_epoch(running, 0, pa.table({"n": pa.array([1], pa.int16())}))
        send_epoch(running, 1, pa.table({"n": pa.array([2], pa.int16()), "text": ["two"]}))
        table = subscription.to_arrow()
        assert table.schema.field("n").type == pa.int16()
        assert table.to_pydict() == {"n": [1, 2], "text": [None, "two"]}


def test_columns_that_only_some_records_have(running: RunningPublication, topic: str) -> None:
    """They are there, wherever they come first, with null where they are missing."""
    with subscribe(topic) as subscription:
        send_epoch(running, 0, [{"a": 1}, {"b": 2}])
        send_epoch(running, 1, [{}, {"c": 3, "a": 4}])
        assert subscription.to_arrow().to_pydict() == {
            "a": [1, None, None, 4],
            "b": [None, 2, None, None],
            "c": [None, None, None, 3],
        }


def test_rows_of_arrow_and_dicts_go_together(running: RunningPublication, topic: str) -> None:
    """Into one table."""
    with subscribe(topic) as subscription:
        send_epoch(running, 0, pa.table({"n": [1]}))
        send_epoch(running, 1, [{"n": 2}])
        assert subscription.to_arrow().to_pydict() == {"n": [1, 2]}


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        ([[1, 2]], "not of a int. Use epochs"),
        ([[{"n": 1}], [(1, 2)]], "not of a tuple"),
        ([pa.table({"n": [1]}), ["one"]], "not of a str"),
        ([[{"n": 1}], [{"n": "one"}]], "do not go into one table"),
        ([pa.table({"n": [1]}), pa.table({"n": ["one"]})], "do not go into one table"),
        ([[{"n": 2**70}]], "do not go into one table"),
        ([[{"n": object}]], "do not go into one table"),
        ([[{1: 2}]], "do not go into one table"),
    ],
    ids=["numbers", "tuples", "text after Arrow", "mixed", "mixed Arrow", "large", "no values", "no names"],
)
def test_what_makes_no_table_can_be_read_otherwise(
    running: RunningPublication, topic: str, batches: list[Any], text: str
) -> None:
    """The error names the topic and what is in the way; the epochs are still there."""
    with subscribe(topic) as subscription:
        for time, batch in enumerate(batches):
            send_epoch(running, time, batch)
        for _ in range(2):
            with pytest.raises(DeliveryError, match=f"'tables/.*{text}"):
                subscription.to_arrow()
        epochs = subscription.epochs()
        assert [next(epochs).time for _ in batches] == list(range(len(batches)))


def test_what_came_before_a_failure_comes_first(running: RunningPublication, topic: str) -> None:
    """Then the failure, each time."""
    with subscribe(topic) as subscription:
        send_epoch(running, 0, [{"n": 0}])
        running.finish("it broke", 1)
        assert subscription.to_arrow().to_pydict() == {"n": [0]}
        for _ in range(2):
            with raises(PublisherLost):
                subscription.to_arrow()
        with raises(PublisherLost):
            subscription.to_arrow(until=1)


def test_who_waits_for_what_has_failed_is_told(running: RunningPublication, topic: str) -> None:
    """What had come is still there for who reads epochs."""
    with subscribe(topic) as subscription:
        send_epoch(running, 0, [{"n": 0}])
        running.finish("it broke", 1)
        with raises(PublisherLost):
            subscription.to_arrow(until=1)
        assert next(subscription.epochs()).records == [{"n": 0}]


def test_pandas_gets_the_same() -> None:
    """Through the public names, of a dataflow of this process, which runs meanwhile."""
    flow = tw.Dataflow("frames")
    flow.input("cities").publish("tables/frames")
    with tw.run(flow, engine="local", workers=2) as job, tw.subscribe("tables/frames") as subscription:
        with job.input("cities") as cities:
            for time in range(3):
                cities.send([{"city": "Oslo", "n": time}])
                cities.advance_to(time + 1)
        frame = subscription.to_pandas(until=2)
        expected = pd.DataFrame({"city": ["Oslo"] * 3, "n": range(3)})
        pd.testing.assert_frame_equal(frame, expected)
        assert subscription.to_pandas().empty
        job.stop()
