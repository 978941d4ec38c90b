"""Subscriptions to jobs of this process."""

import gc
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.pubsub.local_job import LocalJob, send_end, send_epoch, send_numbers
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.events import Batch, Dropped, End, Frontier
from tidewheel.pubsub.subscribers.subscribing import subscribe


def test_reading_runs_the_job() -> None:
    """Who reads in the thread of a local job pumps it, and gets every epoch, whole, to the end."""
    job = LocalJob(workers=2)
    running = job.publish("subscription/a")
    send_numbers(job, running, range(3))
    with subscribe("subscription/a") as subscription:
        assert subscription.topic == "subscription/a"
        epochs = [(epoch.time, epoch.records) for epoch in subscription.epochs()]
    assert epochs == [(0, [0, 1]), (1, [10, 11]), (2, [20, 21])]
    running.finish(None, 1)


def test_events_are_batches_frontiers_and_the_end() -> None:
    """The raw events of a topic, in order, with the frontier at hand."""
    job = LocalJob()
    running = job.publish("subscription/b")
    send_numbers(job, running, [0])
    with subscribe("subscription/b") as subscription:
        events = list(subscription)
        assert [type(event) for event in events] == [
            Frontier,
            Batch,
            Frontier,
            Frontier,
            End,
        ]
        assert len(subscription.frontier) == 0
        assert list(subscription) == []
    running.finish(None, 1)


def test_an_idle_job_is_an_error_at_once_and_not_the_end() -> None:
    """Waiting would be for ever, so it says what to do; afterwards reading goes on where it was."""
    running = LocalJob().publish("subscription/c")
    with subscribe("subscription/c") as subscription:
        send_epoch(running, 0, [1])
        epochs = subscription.epochs()
        assert next(epochs).records == [1]
        with raises(DeliveryError):
            next(epochs)
        send_epoch(running, 1, [2])
        assert next(subscription.epochs()).records == [2]
    running.finish(None, 1)


def test_what_another_thread_publishes_meanwhile_is_no_idleness() -> None:
    """A pump that finds nothing to do, because somebody else has just done it, is no error."""

    class PumpedElsewhere(LocalJob):
        def _pump(self) -> bool:
            super()._pump()
            return False

    job = PumpedElsewhere()
    running = job.publish("subscription/k")
    send_numbers(job, running, [0])
    with subscribe("subscription/k") as subscription:
        assert [epoch.records for epoch in subscription.epochs()] == [[0]]
    running.finish(None, 1)


def test_epochs_can_be_left_and_taken_up_again() -> None:
    """Leaving the loop in the middle of a burst of epochs loses none of them."""
    job = LocalJob()
    running = job.publish("subscription/d")
    with subscribe("subscription/d") as subscription:
        connection = running.handles[0]
        for time in range(3):
            connection.data(time, [time])
        connection.frontier([(0, -1)])
        connection.flush()
        seen = [next(subscription.epochs()).time for _ in range(3)]
    assert seen == [0, 1, 2]
    running.finish(None, 1)


def test_subscribers_get_copies() -> None:
    """What one does to its records, nobody else sees; Arrow stays Arrow."""
    running = LocalJob().publish("subscription/e")
    with subscribe("subscription/e") as one, subscribe("subscription/e") as other:
        send_epoch(running, 0, [[1]])
        send_epoch(running, 1, pa.table({"x": [1]}))
        next(one.epochs()).records[0].append(2)
        assert next(other.epochs()).records == [[1]]
        assert next(other.epochs()).to_arrow().num_rows == 1
        statistics = other.statistics()
        assert (statistics.delivered, statistics.decoded, statistics.filtered) == (2, 2, 0)
    running.finish(None, 1)


def test_a_late_subscriber_does_not_see_the_epoch_under_way() -> None:
    """Unless it asks for parts with ``atomic=False``."""
    running = LocalJob().publish("subscription/f")
    connection = running.handles[0]
    connection.data(0, ["missed"])
    connection.flush()
    with subscribe("subscription/f") as whole, subscribe("subscription/f", atomic=False) as parts:
        send_epoch(running, 0, ["seen"])
        send_epoch(running, 1, ["next"])
        send_end(running, 2)
        assert [epoch.records for epoch in whole.epochs()] == [["next"]]
        assert [epoch.records for epoch in parts.epochs()] == [["seen"], ["next"]]
        assert whole.statistics().filtered == 1
    running.finish(None, 1)


def test_closing_from_another_thread_ends_the_iteration() -> None:
    """A thread that waits for events of a job that runs by itself is let go."""
    job = LocalJob(runs_by_itself=True)
    running = job.publish("subscription/g")
    subscription = subscribe("subscription/g")
    send_epoch(running, 0, [1])
    seen: list[int] = []
    has_read = threading.Event()

    def read() -> None:
        for epoch in subscription.epochs():
            seen.append(epoch.time)
            has_read.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert has_read.wait(30)
    subscription.close()
    subscription.close()
    thread.join(30)
    assert not thread.is_alive()
    assert seen == [0]
    running.wait_for_subscribers(0, 0)
    with raises(DeliveryError):
        running.wait_for_subscribers(1, 0)
    running.finish(None, 1)


def test_a_job_that_runs_by_itself_is_waited_for() -> None:
    """Without a pump, reading waits for what another thread publishes."""
    job = LocalJob(runs_by_itself=True, workers=2)
    running = job.publish("subscription/h")
    subscription = subscribe("subscription/h")

    def run() -> None:
        send_epoch(running, 0, [1], [2])
        send_end(running, 1)

    thread = threading.Thread(target=run)
    thread.start()
    assert [epoch.records for epoch in subscription.epochs()] == [[1, 2]]
    thread.join(30)
    running.finish(None, 1)


def test_reading_a_closed_subscription_is_an_error_unless_the_topic_has_ended() -> None:
    """It does not read as a topic that has ended; an iteration under way ends, and `poll` returns nothing."""
    running = LocalJob().publish("subscription/l")
    with subscribe("subscription/l") as subscription, subscribe("subscription/l") as whole:
        epochs = subscription.epochs()
        send_epoch(running, 0, [1])
        assert next(epochs).records == [1]
        subscription.close()
        assert list(epochs) == []
        assert (subscription.poll(), subscription.has_ended) == ([], True)
        reads: list[Callable[[], object]] = [subscription.epochs, subscription.to_arrow, subscription.to_pandas]
        for read in (*reads, subscription.__iter__, subscription.__aiter__):
            with raises(DeliveryError):
                read()
        send_end(running, 1)
        assert [epoch.time for epoch in whole.epochs()] == [0]
    assert list(whole) == []
    running.finish(None, 1)


def test_a_subscription_that_is_dropped_lets_go() -> None:
    """Nobody waits for a subscriber that nobody holds any more."""
    running = LocalJob().publish("subscription/i")
    subscription = subscribe("subscription/i")
    running.wait_for_subscribers(1, 0)
    del subscription
    gc.collect()
    with raises(DeliveryError):
        running.wait_for_subscribers(1, 0)
    running.finish(None, 1)


def test_falling_behind_is_an_error_of_the_slow_one_only() -> None:
    """Overflow names topic and partition; the other subscriber reads to the end."""
    running = LocalJob().publish("subscription/j", capacity_bytes=2000)
    with subscribe("subscription/j") as slow, subscribe("subscription/j") as quick:
        epochs = quick.epochs()
        for time in range(20):
            send_epoch(running, time, ["x" * 500])
            assert next(epochs).time == time
        send_end(running, 20)
        assert list(epochs) == []
        with raises(DeliveryError):
            next(slow)
    running.finish(None, 1)


def test_only_what_is_wanted_comes() -> None:
    """A function of a record, over all partitions; an epoch of which nothing is wanted does not come at all."""
    job = LocalJob(workers=2)
    running = job.publish("subscription/l")
    send_numbers(job, running, range(4))
    with subscribe("subscription/l", where=lambda n: n % 10 and n > 10) as subscription:
        assert [(epoch.time, epoch.records) for epoch in subscription.epochs()] == [(1, [11]), (2, [21]), (3, [31])]
        assert list(subscription.frontier) == []
    running.finish(None, 1)


def test_tables_can_be_asked_for_by_an_expression() -> None:
    """It stays Arrow from end to end."""
    running = LocalJob().publish("subscription/m")
    with subscribe("subscription/m", where=pc.field("n") > 1) as subscription:
        send_epoch(running, 0, pa.table({"n": [1, 2, 3]}))
        assert next(subscription.epochs()).to_arrow().to_pydict() == {"n": [2, 3]}
    running.finish(None, 1)


def test_a_condition_that_fails_is_an_error_of_its_subscriber_only() -> None:
    """It names topic, partition, time and record; the others and the job go on."""
    running = LocalJob().publish("subscription/n")
    with subscribe("subscription/n", where=lambda n: n > 0) as wrong, subscribe("subscription/n") as other:
        send_epoch(running, 0, [1])
        send_epoch(running, 1, ["one"])
        send_end(running, 2)
        with raises(DeliveryError):
            list(wrong)
        assert [epoch.records for epoch in other.epochs()] == [[1], ["one"]]
    running.finish(None, 1)


def test_an_exception_of_a_subscriber_is_its_own() -> None:
    """It comes out of its with block as it is; nothing waits for who raised it any more, and others get everything."""
    running = LocalJob().publish("subscription/raises")

    def read_and_fail() -> None:
        with subscribe("subscription/raises", slow="block") as wrong:
            send_epoch(running, 0, [0])
            assert running.statistics()[0]["subscribers"] == 2
            for epoch in wrong.epochs():
                1 // epoch.records[0]

    with subscribe("subscription/raises") as other:
        with pytest.raises(ZeroDivisionError):
            read_and_fail()
        assert running.statistics()[0]["subscribers"] == 1
        send_epoch(running, 1, [1])
        send_end(running, 2)
        assert [epoch.records for epoch in other.epochs()] == [[0], [1]]
    running.finish(None, 1)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"where": "n > 1"}, "where is a function of a record"),
        ({"where": (threading.Lock(),).count}, "cannot be sent to a publisher"),
        ({"slow": "drop"}, "slow is one of"),
    ],
    ids=["no condition", "not picklable", "no such policy"],
)
def test_what_cannot_be_asked_for_is_refused(asked: Any, text: str) -> None:
    """At once, before the topic is even looked for."""
    with pytest.raises(DeliveryError, match=text):
        subscribe("subscription/nowhere", timeout_s=0, **asked)


def test_falling_behind_may_cost_epochs() -> None:
    """With ``slow="drop_epochs"`` the newest epochs come, whole, and before them the news of those that do not."""
    job = LocalJob(workers=2)
    running = job.publish("subscription/o", capacity_bytes=2000)
    with subscribe("subscription/o", slow="drop_epochs") as subscription:
        for time in range(20):
            send_epoch(running, time, ["x" * 500], ["y" * 500])
        send_end(running, 20)
        events = list(subscription)
    dropped = [time for event in events if isinstance(event, Dropped) for time in event.times]
    seen = [event.time for event in events if isinstance(event, Batch)]
    assert dropped
    assert seen
    assert sorted(dropped + seen[::2]) == list(range(20))
    assert seen[::2] == seen[1::2]
    assert max(dropped) < min(seen)
    assert subscription.statistics().epochs_dropped == len(dropped)
    assert isinstance(events[-1], End)
    running.finish(None, 1)


def test_epochs_go_on_after_those_that_were_dropped() -> None:
    """An iteration over epochs gets what is left, and the statistics say how many are missing."""
    running = LocalJob().publish("subscription/p", capacity_bytes=2000)
    with subscribe("subscription/p", slow="drop_epochs") as subscription:
        for time in range(20):
            send_epoch(running, time, ["x" * 500])
        send_end(running, 20)
        seen = [epoch.time for epoch in subscription.epochs()]
    assert seen == list(range(20 - len(seen), 20))
    assert subscription.statistics().epochs_dropped == 20 - len(seen) > 0
    running.finish(None, 1)


def test_a_condition_makes_room() -> None:
    """What is not wanted is not queued, so a small share of a large topic fits where all of it would not."""
    running = LocalJob().publish("subscription/q", capacity_bytes=20_000)
    with subscribe("subscription/q", where=lambda record: record == "wanted") as subscription:
        for time in range(50):
            send_epoch(running, time, ["x" * 5000, *(["wanted"] if time == 33 else [])])
        send_end(running, 50)
        assert [(epoch.time, epoch.records) for epoch in subscription.epochs()] == [(33, ["wanted"])]
    running.finish(None, 1)


def test_a_dataflow_of_this_process_serves_both() -> None:
    """With ``engine="local"``, through the public names: a condition, and epochs that might give way but need not."""
    flow = tw.Dataflow("live")
    flow.input("numbers", int).publish("subscription/r")
    with (
        tw.run(flow, engine="local", workers=2) as job,
        tw.subscribe("subscription/r", where=lambda n: n % 100 == 99, slow="drop_epochs") as few,
        tw.subscribe("subscription/r", slow="drop_epochs") as all_of_it,
    ):
        with job.input("numbers") as numbers:
            for time in range(10):
                numbers.send(list(range(time * 100, time * 100 + 100)))
                numbers.advance_to(time + 1)
        assert [epoch.records for epoch in few.epochs()] == [[time * 100 + 99] for time in range(10)]
        events = list(all_of_it)
    seen = Counter(event.time for event in events if isinstance(event, Batch) for _ in event.records)
    assert seen == dict.fromkeys(range(10), 100)
    assert not any(isinstance(event, Dropped) for event in events)
