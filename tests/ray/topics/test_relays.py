"""Relays on a real Ray cluster: everybody has everything once, in order, also when they are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.waiting import eventually
from tidewheel.host.ray_cluster import node_id
from tidewheel.pubsub.catalog.catalog_actor import ask_catalog
from tidewheel.pubsub.errors import DeliveryError, UnknownTopic

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
LEFT_WITHIN_S = 20.0
ROOT = Path(__file__).parents[3]
PROGRAM = "tests.ray.topics.durable_program"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@contextmanager
def publishing(topic: str, log: Path, workers: int = 2, **options: Any) -> Iterator[Any]:
    """A job that publishes its input exactly once."""
    flow = tw.Dataflow(f"publishes {topic}")
    numbers = flow.input("numbers").exchange(lambda n: n)
    numbers.publish(topic, log=tw.Log(log), **options).probe("published")
    with tw.run(flow, workers=workers) as job:
        yield job
        job.stop()


def send(numbers: Any, epochs: range) -> None:
    """Send epochs of four records each."""
    for epoch in epochs:
        numbers.send([epoch * 10 + n for n in range(4)])
        numbers.advance_to(epoch + 1)


def expected(epochs: range) -> list[tuple[int, list[int]]]:
    return [(epoch, [epoch * 10 + n for n in range(4)]) for epoch in epochs]


def read(subscription: tw.types.Subscription, count: int) -> list[tuple[int, list[int]]]:
    """Return the next epochs."""
    epochs = subscription.epochs(timeout_s=DEADLINE_S)
    return [(epoch.time, sorted(epoch.records)) for _, epoch in zip(range(count), epochs, strict=False)]


def kill(actor: Any) -> None:
    """Kill the process of an actor as the system would."""
    os.kill(pid_of(actor), signal.SIGKILL)


def pid_of(actor: Any) -> int:
    import ray

    return int(ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=DEADLINE_S))


@contextmanager
def stopped(actor: Any) -> Iterator[None]:
    """Stop the process of an actor, and let it go on in the end, if it is still there."""
    pid = pid_of(actor)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def children(relay: tw.types.RelayHandle) -> list[int]:
    return [one.children for one in relay.statistics()]


@pytest.mark.long
def test_everybody_has_everything_once_though_relays_are_killed(topic: str, tmp_path: Path, ray_cluster: str) -> None:
    """Two relays, subscribers of this process, and durable ones in processes of their own; each relay dies twice."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path / "log"))
        relay = stack.enter_context(tw.relay(topic, count=2))
        plain = [stack.enter_context(tw.subscribe(topic)) for _ in range(4)]
        files = [tmp_path / f"durable-{number}" for number in range(2)]
        programs = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", PROGRAM, topic, file.name, "publisher", str(file)],
                    cwd=ROOT,
                    env={**os.environ, "RAY_ADDRESS": ray_cluster},
                )
            )
            for file in files
        ]
        assert eventually(lambda: sum(children(relay)) == 6, DEADLINE_S), children(relay)
        assert min(children(relay)) >= 1
        numbers = stack.enter_context(job.input("numbers"))
        for turn in range(4):
            epochs = range(20 * turn, 20 * turn + 20)
            assert eventually(lambda: len(children(relay)) == 2, DEADLINE_S)
            send(numbers, epochs[:10])
            kill(relay.actors[turn % 2])
            send(numbers, epochs[10:])
            assert [read(subscription, 20) for subscription in plain] == [expected(epochs)] * 4
        numbers.close()
        job.wait(timeout_s=DEADLINE_S)
        assert [list(subscription.epochs(timeout_s=DEADLINE_S)) for subscription in plain] == [[]] * 4
        assert [program.wait(DEADLINE_S) for program in programs] == [0, 0]
    for file in files:
        assert file.read_text().splitlines() == [
            *(f"[{at}, {records}]" for at, records in expected(range(80))),
            '"end"',
        ]


def test_a_relay_that_is_killed_comes_back(topic: str, tmp_path: Path) -> None:
    """Its subscribers have gone on without it; who comes later is sent to it again."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path))
        relay = stack.enter_context(tw.relay(topic, [node_id()]))
        numbers = stack.enter_context(job.input("numbers"))
        first = stack.enter_context(tw.subscribe(topic))
        send(numbers, range(3))
        assert read(first, 3) == expected(range(3))
        assert children(relay) == [1]
        kill(relay.actors[0])
        send(numbers, range(3, 6))
        assert read(first, 3) == expected(range(3, 6))
        assert eventually(lambda: bool(ask_catalog("parent", *life(topic), node_id())), DEADLINE_S)
        second = stack.enter_context(tw.subscribe(topic))
        assert eventually(lambda: children(relay) == [1], DEADLINE_S)
        send(numbers, range(6, 9))
        assert read(first, 3) == read(second, 3) == expected(range(6, 9))


@pytest.mark.long
def test_a_relay_that_hangs_is_left(topic: str, tmp_path: Path) -> None:
    """Its subscribers go on without it within seconds, though their connections to it are open."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path, workers=1))
        relay = stack.enter_context(tw.relay(topic, [node_id()]))
        numbers = stack.enter_context(job.input("numbers"))
        subscription = stack.enter_context(tw.subscribe(topic))
        send(numbers, range(3))
        assert read(subscription, 3) == expected(range(3))
        assert children(relay) == [1]
        with stopped(relay.actors[0]):
            send(numbers, range(3, 6))
            began_s = time.monotonic()
            assert read(subscription, 3) == expected(range(3, 6))
            assert time.monotonic() - began_s < LEFT_WITHIN_S
        assert eventually(lambda: children(relay) == [0], DEADLINE_S)


def test_a_publisher_that_hangs_is_found_again(topic: str, tmp_path: Path) -> None:
    """Its relay and its subscribers leave it, and find the one that Ray starts in its place; nothing is lost."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path))
        numbers = stack.enter_context(job.input("numbers"))
        direct = stack.enter_context(tw.subscribe(topic))
        stack.enter_context(tw.relay(topic, [node_id()]))
        relayed = stack.enter_context(tw.subscribe(topic))
        send(numbers, range(3))
        assert read(direct, 3) == read(relayed, 3) == expected(range(3))
        with stopped(ask_catalog("lookup", topic, DEADLINE_S).partitions[0]):
            send(numbers, range(3, 6))
            assert read(direct, 3) == read(relayed, 3) == expected(range(3, 6))
        send(numbers, range(6, 9))
        assert read(direct, 3) == read(relayed, 3) == expected(range(6, 9))


def positions(topic: str) -> list[list[str]]:
    """Return for which names each publisher of a topic keeps a position."""
    import ray

    publishers = ask_catalog("lookup", topic, DEADLINE_S).partitions
    calls = [one.__ray_call__.remote(lambda actor: list(actor._durable.core.subscriptions.known)) for one in publishers]
    return list(ray.get(calls, timeout=DEADLINE_S))


def test_subscribers_behind_a_relay_are_one_to_the_publishers(topic: str, tmp_path: Path, ray_cluster: str) -> None:
    """They are in processes of their own and not durable; when the relay is killed, they miss nothing either."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path / "log"))
        relay = stack.enter_context(tw.relay(topic, [node_id()]))
        files = [tmp_path / f"reader-{number}" for number in range(2)]
        programs = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", PROGRAM, topic, "", "publisher", str(file)],
                    cwd=ROOT,
                    env={**os.environ, "RAY_ADDRESS": ray_cluster},
                )
            )
            for file in files
        ]
        assert eventually(lambda: children(relay) == [2], DEADLINE_S), children(relay)
        numbers = stack.enter_context(job.input("numbers"))
        send(numbers, range(10))
        assert eventually(lambda: positions(topic) == [relay.names] * 2, DEADLINE_S), positions(topic)
        kill(relay.actors[0])
        send(numbers, range(10, 20))
        numbers.close()
        job.wait(timeout_s=DEADLINE_S)
        assert [program.wait(DEADLINE_S) for program in programs] == [0, 0]
    for file in files:
        assert file.read_text().splitlines() == [
            *(f"[{at}, {records}]" for at, records in expected(range(20))),
            '"end"',
        ]


def life(topic: str) -> tuple[str, str]:
    """Return a topic, and what tells this life of it from others."""
    return topic, ask_catalog("lookup", topic, DEADLINE_S).registration


def test_relays_that_are_closed_are_missed_by_nobody(topic: str, tmp_path: Path) -> None:
    """Neither by those who were connected to them, nor by those who come."""
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path, workers=1))
        numbers = stack.enter_context(job.input("numbers"))
        with tw.relay(topic) as relay:
            first = stack.enter_context(tw.subscribe(topic))
            assert children(relay) == [1]
            send(numbers, range(3))
        assert relay.statistics() == []
        relay.close()
        assert read(first, 3) == expected(range(3))
        second = stack.enter_context(tw.subscribe(topic))
        send(numbers, range(3, 6))
        assert read(first, 3) == expected(range(3, 6))
        assert read(second, 3) == expected(range(3, 6))


@pytest.mark.long
def test_a_relay_goes_on_with_the_next_life_of_its_topic(topic: str, tmp_path: Path) -> None:
    """Which may have another number of partitions; nobody has to start it again."""
    with ExitStack() as stack:
        with publishing(topic, tmp_path / "first") as job:
            relay = stack.enter_context(tw.relay(topic))
            with tw.subscribe(topic) as subscription:
                with job.input("numbers") as numbers:
                    send(numbers, range(3))
                assert read(subscription, 4) == expected(range(3))
            job.wait(timeout_s=DEADLINE_S)
        with publishing(topic, tmp_path / "second", partition="merged") as job, job.input("numbers") as numbers:
            assert eventually(lambda: bool(ask_catalog("parent", *life(topic), node_id())), DEADLINE_S)
            with tw.subscribe(topic) as subscription:
                assert children(relay) == [1]
                send(numbers, range(3))
                assert read(subscription, 3) == expected(range(3))


def test_what_cannot_be_relayed_is_an_error(topic: str, tmp_path: Path) -> None:
    """That says what to do."""
    with pytest.raises(UnknownTopic, match=topic):
        tw.relay(topic, timeout_s=0.1)
    flow = tw.Dataflow("best effort")
    flow.input("numbers").publish(topic)
    with tw.run(flow, workers=1) as job:
        with pytest.raises(DeliveryError, match=r"Publish it with log=tw\.Log\(place\)"):
            tw.relay(topic)
        job.stop()
    with tw.run(flow, engine="local") as job:
        with pytest.raises(DeliveryError, match="Run the job with engine='ray'"):
            tw.relay(topic)
        job.stop()
    with publishing(f"{topic} 2", tmp_path, workers=1):
        with pytest.raises(DeliveryError, match="there is no node 'nowhere' in the cluster; those there are"):
            tw.relay(f"{topic} 2", ["nowhere"])
        with pytest.raises(DeliveryError, match="nodes is a list of ids of nodes, not 'nowhere'"):
            tw.relay(f"{topic} 2", "nowhere")
        with pytest.raises(DeliveryError, match="count is a number, at least 1, not 0"):
            tw.relay(f"{topic} 2", count=0)
