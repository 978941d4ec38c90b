"""Reading with a deadline: it is kept, whatever the job does, and what comes after it is not lost."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.pubsub.local_job import LocalJob, send_end, send_epoch, send_numbers
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.events import Batch, End, Epoch
from tidewheel.pubsub.publications.publication import RunningPublication
from tidewheel.pubsub.subscribers.subscribing import subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription

SOON_S = 0.05
LONG_S = 30.0


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"deadlines/{request.node.name}"


@pytest.fixture
def running(topic: str) -> Iterator[RunningPublication]:
    """A topic of a job that runs by itself; the test is that job."""
    publication = LocalJob(runs_by_itself=True).publish(topic)
    yield publication
    publication.finish(None, 1)


class Busy(LocalJob):
    """A job that always has something to do: each round it calls the last step again."""

    def _pump(self) -> bool:
        self.steps[0]()
        return True


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes, which may end with a TimeoutError."""
    began_s = time.monotonic()
    with suppress(TimeoutError):
        call()
    return time.monotonic() - began_s


def is_over(subscription: Subscription) -> bool:
    return subscription.has_ended


def batch(running: RunningPublication, at: int, *records: object) -> None:
    """Publish a batch, after which its time is not complete."""
    running.handles[0].data(at, list(records))
    running.handles[0].flush()


def times(epochs: Iterator[Epoch], most: int) -> list[int]:
    return [next(epochs).time for _ in range(most)]


# ---------------------------------------------------------------------- take


def test_take_returns_what_is_there(running: RunningPublication, topic: str) -> None:
    """All of it at once, in order, and nothing where there is nothing, without waiting."""
    with subscribe(topic) as subscription:
        assert len(subscription.poll()) == 1  # the frontier at the beginning
        assert seconds(subscription.poll) < LONG_S / 2
        assert subscription.poll() == []
        send_epoch(running, 0, [1])
        send_epoch(running, 1, [2])
        found = subscription.poll()
        assert [event.records for event in found if isinstance(event, Batch)] == [[1], [2]]
        assert len(found) == 4
        assert not is_over(subscription)
        send_end(running, 2)
        assert isinstance(subscription.poll()[-1], End)
        assert is_over(subscription)
        assert subscription.poll() == []


def test_take_waits_no_longer_than_for_the_first(running: RunningPublication, topic: str) -> None:
    """It returns as soon as there is something, and with nothing when its time is over."""
    with subscribe(topic) as subscription:
        subscription.poll()
        assert SOON_S <= seconds(lambda: subscription.poll(timeout_s=SOON_S)) < LONG_S / 2
        timer = threading.Timer(SOON_S, batch, [running, 0, "late"])
        timer.start()
        [found] = subscription.poll(timeout_s=LONG_S)
        assert isinstance(found, Batch)
        assert found.records == ["late"]
        timer.join()


def test_take_raises_after_what_came_before(running: RunningPublication, topic: str) -> None:
    """And again each time; a topic that has failed is not over."""
    with subscribe(topic) as subscription:
        batch(running, 0, 1)
        running.finish("it broke", 1)
        assert isinstance(subscription.poll()[-1], Batch)
        for _ in range(2):
            with raises(PublisherLost):
                subscription.poll()
        assert not subscription.has_ended


def test_who_has_closed_is_over(running: RunningPublication, topic: str) -> None:
    """Once what it had read is taken; to begin to read again is an error."""
    subscription = subscribe(topic)
    batch(running, 0, 1)
    assert len(subscription.poll()) == 2
    batch(running, 0, 2)
    subscription.close()
    assert subscription.has_ended
    assert subscription.poll(LONG_S) == []
    with raises(DeliveryError):
        subscription.epochs(timeout_s=LONG_S)


# ---------------------------------------------------------------------- epochs


def test_an_epoch_that_is_late_comes_all_the_same(running: RunningPublication, topic: str) -> None:
    """The error says what was waited for; the same iterator goes on, and so does another one."""
    with subscribe(topic) as subscription:
        epochs = subscription.epochs(timeout_s=SOON_S)
        with pytest.raises(TimeoutError, match=rf"'{topic.replace('[', '.')}': no epoch .* within 0.05 s; .* after 0$"):
            next(epochs)
        batch(running, 0, "first")
        with raises(TimeoutError):
            next(epochs)
        send_epoch(running, 0, ["second"])
        send_epoch(running, 1, ["third"])
        assert next(epochs).records == ["first", "second"]
        assert next(subscription.epochs()).records == ["third"]
        with raises(TimeoutError):
            next(epochs)
        send_end(running, 2)
        assert list(epochs) == []


def test_what_is_there_is_never_late(running: RunningPublication, topic: str) -> None:
    """Without any time at all, epochs that are complete come."""
    with subscribe(topic) as subscription:
        for at in range(3):
            send_epoch(running, at, [at])
        epochs = subscription.epochs(timeout_s=0)
        assert times(epochs, 3) == [0, 1, 2]
        with raises(TimeoutError):
            next(epochs)


@pytest.mark.parametrize("timeout_s", [0.0, 0.3])
def test_a_job_that_is_busy_with_something_else(topic: str, timeout_s: float) -> None:
    """A deadline is kept though there is always something to do, of which nothing is published."""
    job = Busy()
    running = job.publish(topic)
    rounds = count()
    job.steps.append(lambda: next(rounds))  # type: ignore[arg-type]
    with subscribe(topic) as subscription:
        epochs = subscription.epochs(timeout_s=timeout_s)
        for attempt in (lambda: next(epochs), lambda: subscription.poll(timeout_s)):
            assert timeout_s <= seconds(attempt) < LONG_S / 2
        assert seconds(subscription.to_arrow) < LONG_S / 2
        assert next(rounds) > 0
    running.finish(None, 1)


def test_an_epoch_of_which_more_and_more_comes(topic: str) -> None:
    """A deadline is kept though there is always news, of an epoch that is not complete."""
    job = Busy()
    running = job.publish(topic, capacity_bytes=1 << 30)
    job.steps.append(lambda: batch(running, 0, 1))
    with subscribe(topic) as subscription:
        assert seconds(lambda: next(subscription.epochs(timeout_s=0.2))) < LONG_S / 2
        assert seconds(lambda: subscription.to_arrow(until=0, timeout_s=0.2)) < LONG_S / 2
        assert seconds(subscription.to_arrow) < LONG_S / 2
        send_epoch(running, 0, [2])
        epoch = next(subscription.epochs(timeout_s=LONG_S))
        assert epoch.records == [1] * (len(epoch.records) - 1) + [2]
    running.finish(None, 1)


def test_a_local_job_is_run_as_far_as_it_goes(topic: str) -> None:
    """Who asks for what is there, of a job that runs when it is read from, has it run."""
    job = LocalJob(workers=2)
    running = job.publish(topic)
    send_numbers(job, running, range(3))
    with subscribe(topic) as subscription:
        found = subscription.poll()
        while not subscription.has_ended:
            found += subscription.poll()
        assert [event.records for event in found if isinstance(event, Batch)] == [[0], [1], [10], [11], [20], [21]]
    running.finish(None, 1)


def test_the_iterators_may_be_mixed_at_epochs(running: RunningPublication, topic: str) -> None:
    """With and without a deadline, in whichever order."""
    with subscribe(topic) as subscription:
        for at in range(6):
            send_epoch(running, at, [at])
        send_end(running, 6)
        patient, hasty = subscription.epochs(), subscription.epochs(timeout_s=LONG_S)
        assert [*times(patient, 2), *times(hasty, 2), *times(patient, 2)] == list(range(6))
        assert list(hasty) == []


# ---------------------------------------------------------------------- threads


def test_two_threads_that_read_at_once_are_told(running: RunningPublication, topic: str) -> None:
    """The second gets an error that says what to do, and the first notices nothing."""
    with subscribe(topic) as subscription:
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.extend(epoch.time for epoch in subscription.epochs()))
        thread.start()
        with raises(DeliveryError):
            keep_reading(subscription)
        send_epoch(running, 0, [1])
        send_end(running, 1)
        thread.join(LONG_S)
        assert seen == [0]


def keep_reading(subscription: Subscription) -> None:
    """Read, without taking anything, until that is an error."""
    deadline_s = time.monotonic() + LONG_S
    while time.monotonic() < deadline_s:
        subscription._reader.read(0.0)


def test_a_local_dataflow_keeps_a_deadline_while_it_ticks() -> None:
    """Through the public names: a source that waits for its next tick, and nothing published meanwhile."""
    flow = tw.Dataflow("ticking")
    flow.source("ticks", tw.TickSource(3600.0)).filter(lambda tick: False).publish("deadlines/ticks")
    with tw.run(flow, engine="local") as job, tw.subscribe("deadlines/ticks") as subscription:
        assert 0.3 <= seconds(lambda: next(subscription.epochs(timeout_s=0.3))) < LONG_S / 2
        assert subscription.to_arrow().num_rows == 0
        job.stop()
