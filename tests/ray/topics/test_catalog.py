"""The catalog on a real Ray cluster: jobs that are killed, catalogs that are killed, and those who watch meanwhile."""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.waiting import eventually
from tidewheel.host.attachment import AttachmentHost
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC
from tidewheel.pubsub.catalog.catalog_actor import CATALOG_NAME, ask_catalog, catalog_actor
from tidewheel.pubsub.publications.publication import Publication, RunningPublication
from tidewheel.pubsub.publications.ray_publication import RayPublication

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
SECONDS = 10.0
"""The meaning of "within seconds"."""


def host(job: str, workers: int = 1) -> AttachmentHost:
    """A job of which only the publications are real; only the test calls `check`."""
    nodes = [ray.get_runtime_context().get_node_id()] * workers
    return AttachmentHost(job, "ray", workers, nodes=nodes)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@pytest.fixture
def watch() -> Iterator[tw.types.TopicWatch]:
    """Tells what happens to topics; a test fails if it waits for too long."""
    with tw.watch_topics(timeout_s=DEADLINE_S) as made:
        yield made


def publish(topic: str, **arguments: Any) -> tw.Dataflow:
    """Describe a dataflow that publishes what it is fed."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers").exchange(lambda n: n).publish(topic, **arguments)
    return flow


def send_epoch(job: tw.types.Job, epoch: int) -> None:
    """Send ``[10 * epoch, 10 * epoch + 1]``."""
    job.input("numbers").send([10 * epoch, 10 * epoch + 1])
    job.input("numbers").advance_to(epoch + 1)


def named() -> dict[str, str]:
    """Return the topics that are found, with their jobs."""
    return {topic.name: topic.job for topic in tw.topics()}


def of(watch: tw.types.TopicWatch, topic: str) -> Iterator[tw.types.TopicEvent]:
    """Return what is told of one topic."""
    return (event for event in watch if event.topic == topic)


def kill_actor() -> None:
    """Kill the catalog as Ray does."""
    import ray

    ray.kill(catalog_actor())


def kill_process() -> None:
    """Kill the process of the catalog."""
    import ray

    catalog = catalog_actor()
    os.kill(ray.get(catalog.__ray_call__.remote(lambda _: os.getpid()), timeout=DEADLINE_S), signal.SIGKILL)


def incarnation() -> str:
    """Return what tells the catalog that there is from others."""
    return str(ask_catalog("listing").incarnation)


@pytest.mark.long
def test_topics_of_a_killed_driver_are_gone_within_seconds(
    ray_cluster: str, topic: str, watch: tw.types.TopicWatch
) -> None:
    """It is no longer listed, whoever watches is told why, a subscriber gets an error, and the name is free."""
    events = of(watch, topic)
    with DriverProcess(ray_cluster, "tests.ray.driver_program", "wait", topic) as driver:
        driver.wait_until_it_says("running")
        came = next(events)
        assert (came.event, came.partitions, came.schema) == ("published", 2, "any")
        with tw.subscribe(topic) as subscription:
            began_s = time.monotonic()
            driver.kill(signal.SIGKILL)
            went = next(events)
            assert time.monotonic() - began_s < SECONDS
            assert (went.event, went.job, went.registration) == ("retracted", came.job, came.registration)
            assert went.reason == "the driver of its job is dead"
            assert topic not in named()
            with pytest.raises(tw.errors.PublisherLost):
                list(subscription)
            assert time.monotonic() - began_s < 2 * SECONDS
    with tw.run(publish(topic), workers=1) as job, tw.subscribe(topic) as subscription:
        assert next(events).job == job.name
        send_epoch(job, 0)
        assert next(subscription.epochs(timeout_s=DEADLINE_S)).records == [0, 1]
        job.stop()


@pytest.mark.long
def test_a_new_catalog_learns_what_lives(ray_cluster: str, topic: str, watch: tw.types.TopicWatch) -> None:
    """Two jobs of two drivers: who reads goes on, and within seconds both topics are found again.

    Who watches hears nothing of that. Then all is as before: new subscribers find them, what comes and goes is told,
    and topics end with their jobs.
    """
    other = f"{topic}/other"
    with (
        DriverProcess(ray_cluster, "tests.ray.driver_program", "wait", other) as driver,
        tw.run(publish(topic), workers=2) as job,
        tw.subscribe(topic) as early,
    ):
        driver.wait_until_it_says("running")
        first = {event.topic: event for event in (next(watch), next(watch))}
        assert first.keys() == {topic, other}
        before = incarnation()
        epochs = early.epochs(timeout_s=DEADLINE_S)
        send_epoch(job, 0)
        assert sorted(next(epochs).records) == [0, 1]
        kill_process()
        send_epoch(job, 1)
        assert sorted(next(epochs).records) == [10, 11]
        assert eventually(lambda: {topic, other} <= named().keys(), SECONDS)
        assert incarnation() != before
        assert {name: named()[name] for name in first} == {name: event.job for name, event in first.items()}
        assert [event.registration for event in ask_catalog("listing").published if event.topic in first] == [
            first[name].registration for name in sorted(first)
        ]
        with tw.subscribe(topic) as late, tw.subscribe(other):
            send_epoch(job, 2)
            assert sorted(next(epochs).records) == [20, 21]
            assert sorted(next(late.epochs(timeout_s=DEADLINE_S)).records) == [20, 21]
        assert eventually(lambda: job.topic(topic).problem is None)
        with tw.run(publish(f"{topic}/new"), workers=1) as new:
            assert [(event.event, event.topic) for event in (next(watch),)] == [("published", f"{topic}/new")]
            new.stop()
        assert (next(watch).topic, driver.code) == (f"{topic}/new", None)
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert list(epochs) == []
        job.stop()
        gone = next(watch)
        assert (gone.event, gone.topic, gone.registration) == ("retracted", topic, first[topic].registration)


def check_until(running: RunningPublication, condition: Callable[[], bool]) -> bool:
    """Do what the thread does that watches a job, until something is so."""

    def checked() -> bool:
        running.check()
        return condition()

    return eventually(checked, DEADLINE_S)


@pytest.mark.long
def test_a_name_that_another_job_has_taken_meanwhile_is_not_taken_back(
    topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first job logs that once and says so; when the other has ended its topic is found again."""
    first = Publication(topic, IntegerDomain()).start(host("first"))
    with tw.subscribe(topic) as subscription, caplog.at_level(logging.ERROR, logger="tidewheel"):
        kill_actor()
        second = Publication(topic, IntegerDomain()).start(host("second"))
        assert check_until(first, lambda: "another job took the name first" in (first.problem or ""))
        assert "published by job 'second' already" in str(first.problem)
        assert [record.levelname for record in caplog.records if topic in record.getMessage()] == ["ERROR"]
        assert named()[topic] == "second"
        first.handles[0].data(0, [1])
        first.handles[0].frontier([(0, -1), (1, 1)])
        first.handles[0].flush()
        assert next(subscription.epochs(timeout_s=DEADLINE_S)).records == [1]
        second.finish(None, 0)
        assert check_until(first, lambda: first.problem is None)
        assert named()[topic] == "first"
    first.finish(None, 0)
    assert topic not in named()


def test_a_job_that_ends_while_there_is_no_catalog_starts_none(topic: str) -> None:
    """And nobody finds its topic afterwards."""
    import ray

    running = Publication(topic, IntegerDomain()).start(host("job"))
    assert isinstance(running, RayPublication)
    kill_actor()
    assert eventually(lambda: CATALOG_NAME not in ray.util.list_named_actors())
    running.finish(None, 0)
    assert CATALOG_NAME not in ray.util.list_named_actors()
    assert topic not in named()


def test_who_watches_survives_the_publisher_of_the_catalog(topic: str, watch: tw.types.TopicWatch) -> None:
    """It is an actor of its own, since it runs conditions of subscribers; another one takes its place."""
    import ray

    with tw.run(publish(topic), workers=1) as job:
        events = of(watch, topic)
        assert next(events).event == "published"
        [publisher] = ask_catalog("lookup", CATALOG_TOPIC, 0.0).partitions
        ray.kill(publisher)
        with tw.subscribe(CATALOG_TOPIC, where=lambda event: event.topic == topic, schema=tw.types.TopicEvent) as raw:
            assert raw.topic == CATALOG_TOPIC
        job.stop()
    assert next(events).event == "retracted"


def test_events_come_as_epochs_of_a_topic(topic: str) -> None:
    """``tidewheel/catalog`` is read as any topic; its times are the versions of the catalog."""
    with tw.subscribe(CATALOG_TOPIC) as subscription:
        version = ask_catalog("listing").version
        with tw.run(publish(topic, schema=int, partition="merged"), workers=2) as job:
            job.stop()
        epochs = subscription.epochs(timeout_s=DEADLINE_S)
        found = [(epoch.time, epoch.records) for epoch in (next(epochs), next(epochs))]
    assert [time for time, _ in found] == [version + 1, version + 2]
    assert [(e.event, e.topic, e.job, e.partitions, e.schema) for _, events in found for e in events] == [
        ("published", topic, job.name, 1, "int"),
        ("retracted", topic, job.name, 1, "int"),
    ]
    assert found[1][1][0].reason == f"job '{job.name}' was stopped"


def test_a_merged_topic_ends_when_all_workers_have(topic: str) -> None:
    """One publisher for two workers, which gets what both have, and is complete when both are."""
    with tw.run(publish(topic, partition="merged", schema=int), workers=2) as job, tw.subscribe(topic) as subscription:
        job.topic(topic).wait_for_subscribers(1, DEADLINE_S)
        [info] = [info for info in tw.topics() if info.name == topic]
        assert (info.partitions, info.schema) == (1, "int")
        for epoch in range(20):
            send_epoch(job, epoch)
        job.input("numbers").close()
        found = {epoch.time: sorted(epoch.records) for epoch in subscription.epochs(timeout_s=DEADLINE_S)}
        job.wait(DEADLINE_S)
    assert found == {epoch: [10 * epoch, 10 * epoch + 1] for epoch in range(20)}


class Reading:
    """A record of a class that neither the catalog nor a publisher can import."""

    __module__ = "__main__"

    def __init__(self, value: int) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Reading({self.value})"


def test_typed_topics_tell_both_sides_of_a_mismatch(topic: str) -> None:
    """Who expects something else hears at once; what is something else fails the job, and the subscriber hears why."""
    flow = tw.Dataflow("typed")
    numbers = flow.input("numbers", int)
    numbers.map(lambda n: Reading(n) if n else None).publish(topic, schema=Reading)
    job = tw.run(flow)
    mine = f"topic '{topic}' of job '{job.name}' has __main__.Reading, and its subscriber expects int"
    with pytest.raises(tw.errors.SchemaMismatch, match=mine):
        tw.subscribe(topic, schema=int)
    with tw.subscribe(topic, schema=Reading) as subscription:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(1)
        [record] = next(subscription.epochs(timeout_s=DEADLINE_S)).records
        assert record.value == 1
        job.input("numbers").send([0])
        with pytest.raises(tw.JobError, match=f"operator 'publish {topic}' failed on worker . at time 1"):
            job.wait(DEADLINE_S)
        with pytest.raises(
            tw.errors.PublisherLost, match=r"at time 1 came NoneType: None, where __main__\.Reading is expected"
        ):
            list(subscription)
