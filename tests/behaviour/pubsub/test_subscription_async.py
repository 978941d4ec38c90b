"""Reading with asyncio: nothing is lost when tasks are cancelled, late, several, or mixed with reading without."""

import asyncio
import gc
import random
import threading
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.pubsub.actor_thread import ActorThread, ended, epoch
from tests.kit.pubsub.local_job import LocalJob, send_end, send_epoch
from tests.links.open_files import open_files
from tests.waiting import eventually
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.messages.events import Batch, End, Epoch
from tidewheel.pubsub.publications.publication import RunningPublication
from tidewheel.pubsub.subscribers import topic_reader
from tidewheel.pubsub.subscribers.parents import KeptParent
from tidewheel.pubsub.subscribers.polled_parents import PolledParents
from tidewheel.pubsub.subscribers.subscribing import subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription

SOON_S = 0.02
LONG_S = 30.0
MANY = 200


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"asyncio/{request.node.name}"


@pytest.fixture
def running(topic: str) -> Iterator[RunningPublication]:
    """A topic of a job that runs by itself; the test is that job."""
    publication = LocalJob(runs_by_itself=True).publish(topic)
    yield publication
    publication.finish(None, 1)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run what has an end, on a loop of its own."""

    async def limited() -> None:
        async with asyncio.timeout(LONG_S):
            await work

    asyncio.run(limited())


def publish_all(running: RunningPublication, epochs: int = MANY) -> threading.Thread:
    """Publish in another thread, ``[time]`` at each time, and then end."""

    def publish() -> None:
        for time in range(epochs):
            send_epoch(running, time, [time])
        send_end(running, epochs)

    thread = threading.Thread(target=publish)
    thread.start()
    return thread


async def rest(subscription: Subscription) -> list[int]:
    return [one.time async for one in subscription.epochs()]


async def under_way(subscription: Subscription) -> None:
    """Wait until a task waits for what is read."""
    async with asyncio.timeout(60.0):
        while subscription._reader.fetching is None:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0)


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tidewheel-asyncio/")]


def test_events_and_epochs_come_to_the_end(running: RunningPublication, topic: str) -> None:
    """All of them, in order, as they do without asyncio."""

    async def work(events: Subscription, epochs: Subscription) -> None:
        found = [event async for event in events]
        assert [event.records for event in found if isinstance(event, Batch)] == [[time] for time in range(MANY)]
        assert isinstance(found[-1], End)
        assert await rest(epochs) == list(range(MANY))
        assert [event async for event in events] == []

    with subscribe(topic) as events, subscribe(topic) as epochs:
        thread = publish_all(running)
        run(work(events, epochs))
        thread.join()


def test_others_have_their_turn_meanwhile(running: RunningPublication, topic: str) -> None:
    """Waiting for an epoch does not hold up the loop."""

    async def work(subscription: Subscription) -> None:
        waiting = asyncio.create_task(anext(subscription.epochs()))
        await under_way(subscription)
        assert not waiting.done()
        send_epoch(running, 0, ["at last"])
        assert (await waiting).records == ["at last"]

    with subscribe(topic) as subscription:
        run(work(subscription))


@pytest.mark.parametrize("what", ["events", "epochs"])
def test_a_task_that_is_cancelled_loses_nothing(running: RunningPublication, topic: str, what: str) -> None:
    """While it waits: what comes then is for the next one who asks."""

    async def work(subscription: Subscription) -> None:
        iterator: Any = subscription if what == "events" else subscription.epochs()
        if what == "events":
            await anext(iterator)  # the frontier at the beginning
        for time in range(5):
            waiting = asyncio.create_task(anext(iterator))
            await under_way(subscription)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            send_epoch(running, time, [time])
            found = await anext(iterator)
            assert found.records == [time]
            if what == "events":
                await anext(iterator)  # the frontier after it

    with subscribe(topic) as subscription:
        run(work(subscription))


@pytest.mark.parametrize("seed", range(5))
def test_tasks_that_are_cancelled_at_any_moment_lose_nothing(
    running: RunningPublication, topic: str, seed: int
) -> None:
    """While epochs come all the time: each comes once, in order, and so does the end."""
    choices = random.Random(seed)

    async def work(subscription: Subscription) -> None:
        seen: list[int] = []
        epochs = subscription.epochs()
        while True:
            waiting: asyncio.Task[Epoch] = asyncio.create_task(anext(epochs))
            for _ in range(choices.randrange(4)):
                await asyncio.sleep(choices.choice((0, 0, 0.0005)))
            waiting.cancel()
            try:
                seen.append((await waiting).time)
            except asyncio.CancelledError:
                continue
            except StopAsyncIteration:
                break
        assert seen == list(range(MANY))

    with subscribe(topic) as subscription:
        thread = publish_all(running)
        run(work(subscription))
        thread.join()


def test_a_deadline_is_kept_and_nothing_is_lost(running: RunningPublication, topic: str) -> None:
    """An iterator may be asked again after it was late."""

    async def work(subscription: Subscription) -> None:
        epochs = subscription.epochs(timeout_s=SOON_S)
        for time in range(3):
            with pytest.raises(TimeoutError, match=f"within {SOON_S} s; what can still come is at or after {time}"):
                await anext(epochs)
            send_epoch(running, time, [time])
            assert (await anext(subscription.epochs(timeout_s=LONG_S))).records == [time]
        send_end(running, 3)
        assert [one async for one in subscription.epochs(timeout_s=LONG_S)] == []

    with subscribe(topic) as subscription:
        run(work(subscription))


def test_a_deadline_is_kept_while_an_epoch_goes_on(topic: str) -> None:
    """News of an epoch that is not complete is no epoch."""

    class Busy(LocalJob):
        def _pump(self) -> bool:
            publication.handles[0].data(0, [1])
            publication.handles[0].flush()
            return True

    publication = Busy().publish(topic, capacity_bytes=1 << 30)

    async def work(subscription: Subscription) -> None:
        with pytest.raises(TimeoutError):
            await anext(subscription.epochs(timeout_s=0.1))

    with subscribe(topic) as subscription:
        run(work(subscription))
    publication.finish(None, 1)


@pytest.mark.parametrize("closer", ["task", "thread"])
def test_closing_ends_the_iteration(running: RunningPublication, topic: str, closer: str) -> None:
    """By another task, or by another thread; what has come before stays."""

    async def work(subscription: Subscription) -> None:
        send_epoch(running, 0, [0])
        reading = asyncio.create_task(rest(subscription))
        await under_way(subscription)
        assert not reading.done()
        if closer == "task":
            subscription.close()
        else:
            threading.Thread(target=subscription.close).start()
        assert await reading == [0]

    with subscribe(topic) as subscription:
        run(work(subscription))
        running.wait_for_subscribers(0, 0)
    assert eventually(lambda: not names())


def test_several_tasks_share(running: RunningPublication, topic: str) -> None:
    """Each epoch goes to one of them, and all come to the end."""

    async def work(subscription: Subscription) -> None:
        seen = await asyncio.gather(*(rest(subscription) for _ in range(4)))
        assert sorted(time for part in seen for time in part) == list(range(MANY))
        assert all(part == sorted(part) for part in seen)

    with subscribe(topic) as subscription:
        thread = publish_all(running)
        run(work(subscription))
        thread.join()


def test_reading_may_go_on_without_asyncio(running: RunningPublication, topic: str) -> None:
    """After a task was cancelled in the middle of it, at once, and also when the loop is no more."""

    async def work(subscription: Subscription) -> None:
        with suppress(TimeoutError):
            await anext(subscription.epochs(timeout_s=SOON_S))
        send_epoch(running, 0, [0])
        assert next(subscription.epochs()).time == 0
        with suppress(TimeoutError):
            await anext(subscription.epochs(timeout_s=SOON_S))

    with subscribe(topic) as subscription:
        run(work(subscription))
        with pytest.raises(TimeoutError):
            next(subscription.epochs(timeout_s=SOON_S))
        send_epoch(running, 1, [1])
        send_epoch(running, 2, [2])
        assert next(subscription.epochs()).time == 1
        send_end(running, 3)
        run(_only(subscription, [2]))


async def _only(subscription: Subscription, times: list[int]) -> None:
    assert await rest(subscription) == times


def test_errors_come_after_what_came_before(running: RunningPublication, topic: str) -> None:
    """Once each time that somebody asks, and in no other place."""

    async def work(subscription: Subscription) -> None:
        send_epoch(running, 0, [0])
        waiting = asyncio.create_task(rest(subscription))
        await under_way(subscription)
        running.finish("it broke", 1)
        with raises(PublisherLost):
            await waiting
        with raises(PublisherLost):
            await anext(subscription)

    with subscribe(topic) as subscription:
        run(work(subscription))


def test_a_dataflow_of_this_process_runs_while_tasks_wait() -> None:
    """Another task feeds it; while it has nothing to do the one that reads waits."""
    flow = tw.Dataflow("live")
    flow.input("numbers", int).map(lambda n: n * n).publish("asyncio/dataflow")

    async def work(numbers: Any, subscription: Subscription) -> None:
        reading = asyncio.create_task(rest(subscription))
        for time in range(5):
            numbers.send([time])
            numbers.advance_to(time + 1)
            await under_way(subscription)
        assert not reading.done()
        numbers.close()
        assert await reading == list(range(5))

    with tw.run(flow, engine="local") as job, tw.subscribe("asyncio/dataflow") as subscription:
        run(work(job.input("numbers"), subscription))
        job.stop()


@pytest.mark.parametrize("ending", ["closed", "dropped"])
def test_nothing_is_left(ending: str) -> None:
    """No thread and no open file, of a subscription that a task waited for when it was closed, or dropped."""
    with ActorThread() as publisher:
        feed = publisher.feed()
        publisher.call(publisher.actor.ping())
        threads, files = threading.active_count(), len(open_files())
        subscription = publisher.subscription("s")

        async def work(subscription: Subscription) -> None:
            feed.send(epoch(0))
            assert (await anext(subscription.epochs())).time == 0
            with suppress(TimeoutError):
                await anext(subscription.epochs(timeout_s=SOON_S))

        run(work(subscription))
        assert threading.active_count() > threads
        if ending == "closed":
            subscription.close()
        del subscription, work
        gc.collect()
        assert eventually(lambda: (threading.active_count(), len(open_files())) == (threads, files))
        assert eventually(lambda: publisher.statistics().subscribers == 0)
        feed.send([ended(1)])
        feed.finish()


def test_the_thread_that_reads_may_collect_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription that is garbage in a cycle is not collected by the thread that reads for it, under its lock."""
    entered, dropped, has_collected = (threading.Event() for _ in range(3))
    wait = PolledParents._wait

    def collecting(polled: PolledParents, until_s: float) -> list[KeptParent]:
        if threading.current_thread().name.startswith("tidewheel-"):
            entered.set()
            assert dropped.wait(LONG_S)
            gc.collect()
            has_collected.set()
        return wait(polled, min(until_s, monotonic() + SOON_S))

    async def work(subscription: Subscription) -> None:
        with suppress(TimeoutError):
            await anext(subscription.epochs(timeout_s=SOON_S))

    with ActorThread() as publisher:
        feed = publisher.feed()
        subscription = publisher.subscription("s")
        subscription.itself = subscription  # type: ignore[attr-defined]
        monkeypatch.setattr(PolledParents, "_wait", collecting)
        monkeypatch.setattr(topic_reader, "WAIT_S", SOON_S)
        run(work(subscription))
        assert entered.wait(LONG_S)
        subscribed = publisher.statistics().subscribers
        del subscription
        dropped.set()
        assert has_collected.wait(LONG_S)
        assert eventually(lambda: gc.collect() >= 0 and publisher.statistics().subscribers < subscribed)
        feed.send([ended(0)])
        feed.finish()


def test_a_topic_that_has_ended_leaves_nothing_open() -> None:
    """Though nobody closes the subscription: there is nothing more to be read."""
    with ActorThread() as publisher:
        feed = publisher.feed()
        files = len(open_files())
        subscription = publisher.subscription("s")
        feed.send([*epoch(0), ended(1)])
        feed.finish()
        run(_only(subscription, [0]))
        assert eventually(lambda: len(open_files()) < files)  # the worker's own connection has gone, too
        subscription.close()
