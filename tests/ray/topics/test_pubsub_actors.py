"""Topics on a real Ray cluster: publisher actors, the catalog, and subscribers in this and other processes."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from tests.waiting import eventually
from tidewheel.host.attachment import AttachmentHost
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, UnknownTopic
from tidewheel.pubsub.messages.events import Epoch
from tidewheel.pubsub.publications.publication import Publication, RunningPublication
from tidewheel.pubsub.publishers import publisher_calls
from tidewheel.pubsub.subscribers.subscribing import subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


def host(job: str = "job", workers: int = 2) -> AttachmentHost:
    """A job of which only the publications are real."""
    nodes = [ray.get_runtime_context().get_node_id()] * workers
    return AttachmentHost(job, "ray", workers, nodes=nodes)


class Worker:
    """What a worker's operator does: one epoch a call."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def send(self, epoch: int, batch: Any, *, is_last: bool = False) -> None:
        self._connection.data(epoch, batch)
        self._connection.frontier([(epoch, -1)] if is_last else [(epoch, -1), (epoch + 1, 1)])
        self._connection.flush()


def is_alive(publisher: Any) -> bool:
    """Tell whether a publisher actor still answers; a killed one may for a moment."""
    import ray

    try:
        ray.get(publisher.ping.remote(), timeout=DEADLINE_S)
    except ray.exceptions.RayActorError:
        return False
    return True


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@pytest.fixture
def running(topic: str) -> Iterator[RunningPublication]:
    """The topic, published by two workers."""
    publication = Publication(topic, IntegerDomain()).start(host())
    yield publication
    publication.finish("the test is over", 0)


def send(running: RunningPublication, epoch: int, *, is_last: bool = False) -> None:
    """Publish ``[epoch * 10 + worker]`` at each worker, from this process."""
    for number, connection in enumerate(running.handles):
        Worker(connection).send(epoch, [epoch * 10 + number], is_last=is_last)


def send_until_refused(running: RunningPublication, partition: int) -> None:
    """Publish epoch after epoch, from 1, at one worker."""
    for epoch in itertools.count(1):
        Worker(running.handles[partition]).send(epoch, [0])


def publishers(running: RunningPublication) -> list[Any]:
    """The handles of the publisher actors."""
    return list(vars(running)["_publishers"])


def in_thread(subscription: Subscription) -> tuple[threading.Thread, list[Any]]:
    """Read a subscription to its end in another thread; the list gets the epochs, or the error last."""
    seen: list[Any] = []

    def read() -> None:
        try:
            seen.extend((epoch.time, epoch.records) for epoch in subscription.epochs())
        except DeliveryError as error:
            seen.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    return thread, seen


def joined(thread: threading.Thread) -> bool:
    """Wait for a thread; tell whether it ended in time."""
    thread.join(DEADLINE_S)
    return not thread.is_alive()


def test_workers_publish_and_late_subscribers_see_whole_epochs(running: RunningPublication, topic: str) -> None:
    """Connections travel to actors; one subscriber sees all, one that comes in the middle of an epoch none of that."""
    import ray

    workers: list[Any] = [ray.remote(Worker).options(num_cpus=0).remote(connection) for connection in running.handles]
    with subscribe(topic) as early:
        ray.get([worker.send.remote(0, [number]) for number, worker in enumerate(workers)])
        ray.get(workers[0].send.remote(1, [10]))
        assert next(early.epochs()).records == [0, 1]
        with subscribe(topic) as late:
            ray.get(workers[1].send.remote(1, [11]))
            ray.get([worker.send.remote(2, [20 + n], is_last=True) for n, worker in enumerate(workers)])
            assert [epoch.records for epoch in early.epochs()] == [[10, 11], [20, 21]]
            assert [(epoch.time, epoch.records) for epoch in late.epochs()] == [(2, [20, 21])]
            assert late.statistics().filtered == 1
    running.finish(None, DEADLINE_S)


SUBSCRIBER = """
import json, sys
{connect}
from tidewheel.pubsub.subscribers.subscribing import subscribe
with subscribe({topic!r}, timeout_s=30) as subscription:
    print(json.dumps([[epoch.time, epoch.records] for epoch in subscription.epochs()]))
"""


@pytest.mark.parametrize(
    "connect",
    [
        pytest.param("", id="outside"),
        pytest.param("import ray; ray.init(log_to_driver=False)", id="anonymous", marks=pytest.mark.long),
    ],
)
def test_a_subscriber_in_another_process(
    running: RunningPublication, topic: str, ray_cluster: str, connect: str
) -> None:
    """A process that knows nothing but the topic's name and the cluster's address, even in a namespace of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", SUBSCRIBER.format(topic=topic, connect=connect)],
        env={**os.environ, "RAY_ADDRESS": ray_cluster},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        running.wait_for_subscribers(1, DEADLINE_S)
        send(running, 0)
        send(running, 1, is_last=True)
        running.finish(None, DEADLINE_S)
        output, errors = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert json.loads(output) == [[0, [0, 1]], [1, [10, 11]]]


def test_without_a_cluster_the_error_says_so() -> None:
    """A process whose cluster is not there gets an error after its timeout; Ray alone would try for minutes."""
    result = subprocess.run(
        [sys.executable, "-c", "from tidewheel import subscribe; subscribe('any', timeout_s=0)"],
        env={**os.environ, "RAY_ADDRESS": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert result.returncode != 0
    assert "NoCluster: no connection to the Ray cluster at '127.0.0.1:1'" in result.stderr


def test_an_unknown_topic_is_an_error_after_the_timeout(running: RunningPublication, topic: str) -> None:
    """The error names the topic, how long it was waited for, and what there is."""
    began_s = time.monotonic()
    with pytest.raises(UnknownTopic, match=r"no job published topic 'nothing' within 0.3 s; .*") as caught:
        subscribe("nothing", timeout_s=0.3)
    assert 0.3 <= time.monotonic() - began_s < 10
    assert topic in caught.value.topics
    assert caught.value.waited_s == 0.3


def test_subscribing_waits_for_the_topic(topic: str) -> None:
    """A subscriber may come first."""
    found: list[Subscription] = []
    thread = threading.Thread(target=lambda: found.append(subscribe(topic, timeout_s=DEADLINE_S)))
    thread.start()
    running = Publication(topic, IntegerDomain()).start(host(workers=1))
    assert joined(thread)
    send(running, 0, is_last=True)
    with found[0] as subscription:
        assert [epoch.records for epoch in subscription.epochs()] == [[0]]
    running.finish(None, DEADLINE_S)


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_publisher_is_an_error_within_ten_seconds(
    running: RunningPublication, topic: str, victim: int
) -> None:
    """The subscriber gets what came before, and then PublisherLost with topic and partition; so does the worker."""
    import ray

    with subscribe(topic) as subscription:
        send(running, 0)
        assert next(subscription.epochs()).records == [0, 1]
        thread, seen = in_thread(subscription)
        began_s = time.monotonic()
        ray.kill(publishers(running)[victim])
        assert joined(thread)
        assert time.monotonic() - began_s < 10
    [error] = seen
    assert isinstance(error, PublisherLost)
    assert (error.topic, error.partition) == (topic, victim)
    with pytest.raises(PublisherLost, match=f"partition {victim}: the publisher is dead"):
        send_until_refused(running, victim)


def test_a_name_belongs_to_a_job_until_it_is_dead(running: RunningPublication, topic: str) -> None:
    """A second job of that name is refused, and takes over when a publisher of the first is found dead."""
    import ray

    with pytest.raises(DeliveryError, match=f"topic '{topic}' is published by job 'job' already") as caught:
        Publication(topic, IntegerDomain()).start(host("another"))
    assert caught.value.topic == topic
    ray.kill(publishers(running)[1])
    assert eventually(lambda: not is_alive(publishers(running)[1]))
    successor = Publication(topic, IntegerDomain()).start(host("another", workers=1))
    running.finish(None, 0)
    with subscribe(topic) as subscription:
        send(successor, 0, is_last=True)
        assert [epoch.records for epoch in subscription.epochs()] == [[0]]
    successor.finish(None, DEADLINE_S)


@pytest.mark.parametrize(
    ("error", "reason"), [("it broke", "it broke"), (None, "the job was stopped before the topic ended")]
)
def test_a_topic_that_has_not_ended_fails(
    running: RunningPublication, topic: str, error: str | None, reason: str
) -> None:
    """Subscribers hear why, the actors are gone, and so is the topic; finishing again does nothing."""
    with subscribe(topic) as subscription:
        send(running, 0)
        thread, seen = in_thread(subscription)
        running.finish(error, DEADLINE_S)
        running.finish(error, DEADLINE_S)
        assert joined(thread)
    assert seen[:-1] in ([], [(0, [0, 1])])
    assert isinstance(seen[-1], PublisherLost)
    assert reason in str(seen[-1])
    assert eventually(lambda: not any(is_alive(publisher) for publisher in publishers(running)))
    with pytest.raises(UnknownTopic):
        subscribe(topic, timeout_s=0)


def test_finishing_waits_until_the_last_messages_are_fetched(running: RunningPublication, topic: str) -> None:
    """A subscriber that only begins to read when the job finishes still gets everything, and nobody waits longer."""
    with subscribe(topic) as subscription:
        for epoch in range(5):
            send(running, epoch)
        send(running, 5, is_last=True)
        thread, seen = in_thread(subscription)
        running.finish(None, DEADLINE_S)
        assert joined(thread)
    assert [epoch for epoch, _ in seen] == list(range(6))


def test_closing_from_another_thread_ends_the_iteration(running: RunningPublication, topic: str) -> None:
    """The poll that is out returns at once, well before its time is over."""
    subscription = subscribe(topic)
    thread, seen = in_thread(subscription)
    began_s = time.monotonic()
    subscription.close()
    assert joined(thread)
    assert time.monotonic() - began_s < 4
    assert seen == []


def test_a_subscription_that_is_dropped_lets_go(running: RunningPublication, topic: str) -> None:
    """Finishing does not wait for a subscriber that nobody holds any more."""
    send(running, 0)
    assert [epoch.time for epoch in itertools.islice(subscribe(topic, atomic=False).epochs(), 0)] == []
    send(running, 1, is_last=True)
    began_s = time.monotonic()
    running.finish(None, DEADLINE_S)
    assert time.monotonic() - began_s < DEADLINE_S / 2


def test_what_the_publisher_refuses_fails_worker_and_topic(running: RunningPublication, topic: str) -> None:
    """Impossible events raise in the worker within a few calls, and subscribers hear of it."""
    with subscribe(topic) as subscription:
        connection = running.handles[0]
        connection.frontier([(0, -1), (5, 1)])
        connection.data(3, [1])
        connection.flush()
        connection.frontier([(5, -1)])
        with pytest.raises(DeliveryError, match=r"partition 0: the publisher did not take .*time 3"):
            connection.flush()
        with pytest.raises(PublisherLost, match=r"partition 0: the publisher failed: .*time 3"):
            list(subscription.epochs())


def test_large_arrow_batches_arrive_as_arrow(running: RunningPublication, topic: str) -> None:
    """Batches larger than a reply, of both partitions, in order, still Arrow; empty partitions hold nobody back."""
    import pyarrow as pa

    table = pa.table({"x": range(500_000)})
    with subscribe(topic) as subscription:
        for epoch in range(4):
            for connection in running.handles:
                Worker(connection).send(epoch, table, is_last=epoch == 3)
        rows: list[Epoch] = list(subscription.epochs())
    assert [epoch.to_arrow().num_rows for epoch in rows] == [1_000_000] * 4
    assert rows[-1].batches[1].data.equals(table)
    running.finish(None, DEADLINE_S)


def test_waiting_for_subscribers_tells_how_many_there_are(running: RunningPublication, topic: str) -> None:
    """Enough is enough; too few is an error with the count at each partition."""
    with pytest.raises(DeliveryError, match=r"waited 0.1 s for 1 subscribers, and there are \[0, 0\]"):
        running.wait_for_subscribers(1, 0.1)
    with subscribe(topic):
        running.wait_for_subscribers(1, DEADLINE_S)


def test_publishers_that_did_not_answer_are_asked_again(
    running: RunningPublication, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited in vain for publishers that were only starting up may wait once more."""
    with monkeypatch.context() as impatient:
        impatient.setattr(publisher_calls, "_REPLY_MARGIN_S", -0.1)  # no time at all for an answer
        with pytest.raises(DeliveryError, match=r"and there are \[0, 0\]"):
            running.wait_for_subscribers(1, 0.1)
    with subscribe(topic):
        running.wait_for_subscribers(1, DEADLINE_S)
