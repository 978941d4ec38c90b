"""Subscribers that hold back a job, or do not read at all, on a real Ray cluster; and reading with asyncio there."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest

import tidewheel as tw
from tests.kit.operators.lazy_source import LazySource
from tests.ray.leftovers import hosts, nothing_left
from tests.waiting import eventually
from tidewheel.transport import tickets

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
MIB = 1 << 20
CAPACITY = MIB
SIZE = 100_000
EPOCHS = 600
"""More than all that can be on its way, by far: the capacity, buffers of sockets, and what the limits below allow."""
SMALL = tw.RuntimeConfig(bytes_in_flight=4 * MIB)


class Arrays(LazySource):
    """A source of one array of 100 kB an epoch."""

    def batches(self, partition: int) -> Iterator[tuple[int, Any]]:
        return ((epoch, np.full(SIZE // 8, epoch)) for epoch in range(EPOCHS))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


def publishing(topic: str) -> tw.Dataflow:
    flow = tw.Dataflow(topic)
    flow.source("arrays", Arrays()).publish(topic, partition="merged", capacity_bytes=CAPACITY)
    return flow


def read_all(subscription: tw.types.Subscription) -> list[int]:
    """Read to the end; return the times, each of which came whole."""
    times = []
    for epoch in subscription.epochs(timeout_s=DEADLINE_S):
        [batch] = epoch.batches
        assert (len(batch), batch.data[0], batch.data[-1]) == (SIZE // 8, epoch.time, epoch.time)
        times.append(epoch.time)
    return times


def sent(job: tw.types.Job) -> int:
    """Return how many arrays the source has sent."""
    return job.statistics().operators["arrays"].messages_out


def stands_still(job: tw.types.Job) -> bool:
    """Wait until the source sends nothing more for a second."""
    last, since_s = -1, time.monotonic()

    def is_still() -> bool:
        nonlocal last, since_s
        now = sent(job)
        if now != last:
            last, since_s = now, time.monotonic()
        return time.monotonic() - since_s > 1.0

    return eventually(is_still, DEADLINE_S)


def test_a_source_waits_for_one_that_blocks(topic: str) -> None:
    """While it does not read, little more than the limits is sent; then everything comes."""
    with (
        tw.run(publishing(topic), workers=1, config=SMALL, paused=True) as job,
        tw.subscribe(topic, slow="block", timeout_s=DEADLINE_S) as subscription,
    ):
        job.start()
        assert next(subscription.epochs(timeout_s=DEADLINE_S)).time == 0
        assert stands_still(job)
        assert sent(job) < EPOCHS / 2
        assert job.statistics().topics[topic][0]["holders"] == 1
        assert read_all(subscription) == list(range(1, EPOCHS))
        job.wait(timeout_s=DEADLINE_S)


def test_one_that_never_reads_is_cut_off(topic: str) -> None:
    """After its limit: the job completes though the driver does not read, and others get everything."""
    seen: list[int] = []
    with (
        tw.run(publishing(topic), workers=1, config=SMALL, paused=True) as job,
        tw.subscribe(topic, slow="block", block_limit_s=1.0, timeout_s=DEADLINE_S) as unread,
        tw.subscribe(topic, slow="block", timeout_s=DEADLINE_S) as read,
    ):
        thread = threading.Thread(target=lambda: seen.extend(read_all(read)))
        thread.start()
        job.start()
        job.wait(timeout_s=DEADLINE_S)
        with pytest.raises(tw.DeliveryError, match="held back what is published for 1 s without taking any of it"):
            list(unread)
        thread.join(DEADLINE_S)
    assert seen == list(range(EPOCHS))


def test_where_there_are_no_sockets_calls_have_to_do(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As between nodes: a subscriber that blocks is waited for as long as it takes, and no longer."""
    monkeypatch.setattr(tickets, "is_possible", lambda: False)  # in this process alone
    with (
        tw.run(publishing(topic), workers=1, config=SMALL, paused=True) as job,
        tw.subscribe(topic, slow="block", timeout_s=DEADLINE_S) as subscription,
    ):
        job.start()
        began_s = time.monotonic()
        assert read_all(subscription) == list(range(EPOCHS))
        job.wait(timeout_s=DEADLINE_S)
        assert time.monotonic() - began_s < DEADLINE_S


STOPPED = """
import sys
import tidewheel as tw
with tw.subscribe({topic!r}, timeout_s=60, slow={slow!r}) as subscription:
    print(next(iter(subscription)), flush=True)
    try:
        for event in subscription:
            if isinstance(event, tw.types.Dropped | tw.types.End):
                print(type(event).__name__, flush=True)
    except tw.DeliveryError as error:
        print(error, flush=True)
"""


@pytest.mark.parametrize(
    ("slow", "outcome"),
    [
        pytest.param("disconnect", "topic '{topic}', partition 0: the publisher", id="disconnect"),
        pytest.param("drop_epochs", "Dropped\nEnd", id="drop_epochs", marks=pytest.mark.long),
    ],
)
def test_a_process_that_is_stopped_holds_nobody_up(topic: str, slow: str, outcome: str, ray_cluster: str) -> None:
    """Others get everything, the publisher's memory stays within bounds, and what became of it is told to it later."""
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED.format(topic=topic, slow=slow)],
        env={**os.environ, "RAY_ADDRESS": ray_cluster},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        with nothing_left(within_s=DEADLINE_S) as members:
            with (
                tw.run(publishing(topic), workers=1, config=SMALL, paused=True) as job,
                tw.subscribe(topic, slow="block", timeout_s=DEADLINE_S) as read,
            ):
                assert process.stdout.readline().startswith("Frontier")
                process.send_signal(signal.SIGSTOP)
                members.note()
                before = publisher_memory()
                job.start()
                assert read_all(read) == list(range(EPOCHS))
                assert publisher_memory() - before < 2 * CAPACITY + 32 * MIB
                job.wait(timeout_s=DEADLINE_S)
                process.send_signal(signal.SIGCONT)
            output, _ = process.communicate(timeout=DEADLINE_S)
            assert outcome.format(topic=topic) in output
    finally:
        process.kill()
        process.communicate()


def publisher_memory() -> int:
    """Return how many bytes the only publisher has for itself."""
    [process] = hosts("publisher")
    return int(process.memory_full_info().uss)


def test_asyncio_on_ray(topic: str) -> None:
    """One task feeds, others read with deadlines and are cancelled; a table is there in the end; nothing is lost."""
    flow = tw.Dataflow(topic)
    flow.input("numbers").publish(topic)

    async def work(numbers: Any, subscription: tw.types.Subscription) -> None:
        epochs = subscription.epochs(timeout_s=0.2)
        with pytest.raises(TimeoutError):
            await anext(epochs)
        for at in range(20):
            waiting = asyncio.create_task(anext(epochs))
            await asyncio.sleep(0)
            if at % 2:
                waiting.cancel()
            numbers.send([{"n": at}])
            numbers.advance_to(at + 1)
            with suppress(asyncio.CancelledError, TimeoutError):
                assert (await waiting).records == [{"n": at}]
                continue
            assert (await anext(subscription.epochs(timeout_s=DEADLINE_S))).records == [{"n": at}]
        reading = asyncio.create_task(anext(subscription.epochs()))
        await asyncio.sleep(0)  # it waits
        subscription.close()
        with pytest.raises(StopAsyncIteration):
            await reading

    with nothing_left(), tw.run(flow, workers=2) as job, tw.subscribe(topic, timeout_s=DEADLINE_S) as subscription:
        asyncio.run(work(job.input("numbers"), subscription))
        with tw.subscribe(topic) as other:
            job.input("numbers").send([{"n": 20}, {"n": 21, "text": "more"}])
            job.input("numbers").close()
            frame = other.to_pandas(until=20, timeout_s=DEADLINE_S)
            assert frame["n"].tolist() == [20, 21]
        job.wait(timeout_s=DEADLINE_S)


FIRST = """
import threading
import tidewheel as tw

def read():
    with tw.subscribe({topic!r}, timeout_s=60) as subscription:
        print(f"{{[epoch.records for epoch in subscription.epochs(timeout_s=60)]}}\\n", end="", flush=True)

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()  # from Python 3.12 on, no thread starts when the main one has ended, and Ray starts some
"""


def test_threads_that_are_the_first_to_need_the_cluster(topic: str, ray_cluster: str) -> None:
    """Several at once, in a process that has not joined it: all of them get what they asked for."""
    flow = tw.Dataflow(topic)
    flow.input("numbers").publish(topic, partition="merged")
    with tw.run(flow, workers=1) as job:
        process = subprocess.Popen(
            [sys.executable, "-c", FIRST.format(topic=topic)],
            env={**os.environ, "RAY_ADDRESS": ray_cluster},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            job.topic(topic).wait_for_subscribers(8, timeout_s=DEADLINE_S)
            job.input("numbers").send([1, 2])
            job.input("numbers").close()
            output, errors = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
            process.communicate()
        job.wait(timeout_s=DEADLINE_S)
    assert (output.splitlines(), errors) == (["[[1, 2]]"] * 8, "")


@pytest.mark.long
def test_many_subscriptions_at_once(topic: str) -> None:
    """A hundred in one process, made by several threads at once; all get everything, and nothing of them is left."""
    flow = tw.Dataflow(topic)
    flow.input("numbers").publish(topic)
    subscriptions: list[tw.types.Subscription] = []
    with nothing_left(), ExitStack() as stack, tw.run(flow, workers=2) as job:

        def subscribe() -> None:
            for _ in range(25):
                subscriptions.append(tw.subscribe(topic, timeout_s=DEADLINE_S))  # noqa: PERF401 - those made so far count

        threads = [threading.Thread(target=subscribe) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        for subscription in subscriptions:
            stack.enter_context(subscription)
        assert len(subscriptions) == 100
        for at in range(3):
            job.input("numbers").send([at])
            job.input("numbers").advance_to(at + 1)
        job.input("numbers").close()
        for subscription in subscriptions:
            assert [epoch.records for epoch in subscription.epochs(timeout_s=DEADLINE_S)] == [[0], [1], [2]]
        job.wait(timeout_s=DEADLINE_S)
