"""Jobs on real Ray actors: the same results as in one process, and nothing left behind however they end."""

import os
import random
import signal
import threading
import time
import traceback
from contextlib import nullcontext
from typing import Any, TypeAlias

import psutil
import pytest
import ray

import tidewheel as tw
from tests.waiting import eventually
from tidewheel.progress import SpreadName
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

GONE_WITHIN_S = 10.0
Walk: TypeAlias = tuple[int, int, int]
"""The node where a walk began, the one where it is, and the number of its steps."""


def started(flow: tw.Dataflow, workers: int, progress: SpreadName = "broadcast") -> RayJob:
    """Deploy on Ray."""
    job = tw.run(flow, workers=workers, config=tw.RuntimeConfig(progress=progress))
    assert isinstance(job, RayJob)
    return job


def nothing_left(job: RayJob) -> bool:
    """Tell whether no process and no named actor of the job is there any more."""
    names = {actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)}
    return not any(psutil.pid_exists(pid) for pid in job.pids) and not any(job.name in name for name in names)


def collatz() -> tw.Dataflow:
    """Return a dataflow that counts, for each number, the steps down to 1, going round a loop with an exchange."""
    flow = tw.Dataflow("collatz")

    def body(walks: tw.Stream[Walk]) -> tuple[tw.Stream[Walk], tw.Stream[Walk]]:
        stepped = walks.exchange(lambda walk: walk[1]).map(
            lambda walk: (walk[0], walk[1] // 2 if walk[1] % 2 == 0 else 3 * walk[1] + 1, walk[2] + 1)
        )
        return stepped.filter(lambda walk: walk[1] != 1), stepped.filter(lambda walk: walk[1] == 1)

    steps = flow.input("numbers").map(lambda n: (n, n, 0)).iterate(body, name="walk")
    steps.map(lambda walk: (walk[0], walk[2])).capture("steps").publish("collatz").probe("done")
    return flow


def feed_walks(handle: tw.types.InputHandle, numbers: range) -> None:
    """Send numbers to `collatz`, four of all that there are in each epoch."""
    with handle:
        for n in numbers:
            handle.advance_to((n - 2) // 4)
            handle.send([n])


def collatz_steps(number: int) -> int:
    """Return the number of steps by plain Python."""
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


@pytest.mark.parametrize(
    ("workers", "progress"),
    [
        pytest.param(1, "broadcast", marks=pytest.mark.long),
        pytest.param(2, "broadcast", marks=pytest.mark.long),
        pytest.param(3, "broadcast", marks=pytest.mark.long),
        pytest.param(2, "accumulated", marks=pytest.mark.long),
        (3, "accumulated"),
    ],
)
def test_a_loop_gives_the_same_on_any_number_of_workers(workers: int, progress: SpreadName) -> None:
    """Records that go round a loop of exchanges, several epochs in flight, come out at their epoch, each once."""
    job = started(collatz(), workers, progress)
    with job:
        numbers = job.input("numbers")
        for epoch in range(5):
            numbers.advance_to(epoch)
            numbers.send([2 + epoch * 3])
            numbers.send([3 + epoch * 3, 4 + epoch * 3])
        numbers.close()
        job.wait(timeout_s=60)
        found = sorted((entry.time, record) for entry in job.captured("steps") for record in entry.batch)
    assert found == [((n - 2) // 3, (n, collatz_steps(n))) for n in range(2, 17)]
    assert eventually(lambda: nothing_left(job))


def test_a_probe_follows_the_epochs() -> None:
    """`wait_until` returns when the epochs before are complete, not earlier, and says so when it gives up."""
    with started(collatz(), 2) as job:
        numbers, done = job.input("numbers"), job.probe("done")
        for epoch in range(1, 4):
            numbers.send([epoch + 5])
            numbers.advance_to(epoch)
            done.wait_until(epoch, timeout_s=30)
            assert list(done.frontier) == [epoch]
        with pytest.raises(TimeoutError, match=r"probe 'done' to reach 4.*'numbers' at time 3"):
            done.wait_until(4, timeout_s=0.1)
        job.stop()


def test_an_operators_exception_fails_the_job() -> None:
    """The error names operator, worker and time and shows the user's line; every actor goes away; nothing hangs."""
    flow = tw.Dataflow("division")
    flow.input("numbers").exchange(lambda n: n).map(lambda n: 1 // n).probe("done")
    job = started(flow, 2)
    job.input("numbers").advance_to(3)
    job.input("numbers").send([4, 0, 5])
    with pytest.raises(tw.JobError, match=r"operator 'map' failed on worker \d at time 3: ZeroDivision") as failure:
        job.probe("done").wait_until(4, timeout_s=60)
    assert (failure.value.operator, failure.value.time) == ("map", 3)
    assert failure.value.worker in {0, 1}
    assert "1 // n" in failure.value.traceback_text
    with pytest.raises(tw.JobError, match="ZeroDivisionError"):
        job.input("numbers").send([1])
    assert eventually(lambda: nothing_left(job))
    job.stop()


def fail_in_block(flow: tw.Dataflow) -> None:
    """Leave the block of a job that has failed meanwhile, without having waited for it."""
    with started(flow, 1) as job:
        job.input("numbers").send([0])
        assert eventually(lambda: nothing_left(job))


def test_leaving_the_block_of_a_failed_job_raises() -> None:
    """A failure is not lost when the program never waits for the job."""
    flow = tw.Dataflow("division")
    flow.input("numbers").map(lambda n: 1 // n)
    with pytest.raises(tw.JobError, match="ZeroDivisionError"):
        fail_in_block(flow)


def test_a_build_that_raises_fails_the_deployment() -> None:
    """An operator that cannot be built is named before anything runs."""

    def build(context: tw.OperatorContext) -> object:
        raise LookupError(f"no model on worker {context.worker}")

    flow = tw.Dataflow("building")
    flow.input("numbers").unary(build, name="predict")  # type: ignore[arg-type]
    with pytest.raises(tw.JobError, match=r"operator 'predict' could not be built on worker \d: LookupError: no model"):
        tw.run(flow, workers=2)


def test_a_function_that_cannot_be_pickled_is_refused() -> None:
    """The operator and the object are named, in a few lines and not in Ray's page of them; nothing is deployed."""
    lock = threading.Lock()
    flow = tw.Dataflow("locked")
    flow.input("numbers").map(lambda n: n).filter(lambda n: lock.locked())
    with pytest.raises(
        tw.GraphError, match=r"operator 'filter' cannot be pickled.*found at <lambda> > lock\."
    ) as raised:
        tw.run(flow, workers=2)
    shown = "".join(traceback.format_exception(raised.value))
    assert "Could not serialize" not in shown
    assert "Checking Serializability" not in shown


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_worker_process_fails_the_job(victim: int) -> None:
    """SIGKILL of one worker: the job raises within 10 s, names the worker, and leaves no actor behind."""
    job = started(collatz(), 2)
    job.input("numbers").send([27])
    begin = time.monotonic()
    os.kill(job.pids[victim], signal.SIGKILL)
    with pytest.raises(tw.JobError, match=rf"worker {victim}") as failure:
        job.wait(timeout_s=30)
    assert time.monotonic() - begin < GONE_WITHIN_S
    assert failure.value.worker == victim
    assert eventually(lambda: nothing_left(job))
    job.stop()


def test_stopping_a_job_that_still_runs_leaves_nothing() -> None:
    """A job stopped in the middle, its inputs open and a record circulating for ever, is gone within seconds."""
    flow = tw.Dataflow("circulating")
    flow.input("numbers").iterate(lambda s: (s.exchange(lambda n: n), s.filter(lambda _: False))).probe("done")
    job = started(flow, 2)
    with job:
        job.input("numbers").send([1, 2, 3])
        job.input("numbers").advance_to(1)
        with pytest.raises(TimeoutError):
            job.probe("done").wait_until(1, timeout_s=0.3)
        job.stop()
    assert eventually(lambda: nothing_left(job))
    with pytest.raises(tw.JobError, match="was stopped"):
        job.wait()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
def test_a_late_subscriber_sees_whole_epochs(seed: int) -> None:
    """A subscriber that joins at a random moment, two partitions, sees an epoch whole or not at all, without holes."""
    chance = random.Random(seed)
    epochs, join_at = 40, chance.randrange(40)
    sent: dict[int, list[int]] = {epoch: [] for epoch in range(epochs + 1)}
    seen: dict[int, list[int]] = {}

    def read() -> None:
        with tw.subscribe("late", timeout_s=30) as subscription:
            for epoch in subscription.epochs():
                seen[epoch.time] = sorted(epoch.records)

    flow = tw.Dataflow("late")
    flow.input("numbers").exchange(lambda n: n).publish("late")
    reader = threading.Thread(target=read)
    with started(flow, 2) as job:
        numbers = job.input("numbers")
        for epoch in range(epochs):
            for part in range(chance.randrange(1, 5)):
                if epoch == join_at and part == 0:
                    reader.start()
                sent[epoch] += (batch := [epoch * 1000 + part * 10 + n for n in range(10)])
                numbers.send(batch)
            numbers.advance_to(epoch + 1)
        job.topic("late").wait_for_subscribers(1, timeout_s=30)
        sent[epochs] = list(range(10))
        numbers.send(sent[epochs])
        numbers.close()
        job.wait(timeout_s=60)
    reader.join(timeout=30)
    assert not reader.is_alive(), f"seed {seed}: the iterator did not end with the job"
    assert list(seen) == list(range(epochs + 1 - len(seen), epochs + 1)), f"seed {seed}: a hole in {list(seen)}"
    assert len(seen) >= 1
    assert seen == {epoch: sorted(sent[epoch]) for epoch in seen}, f"seed {seed}"


class Unpicklable:
    """A record that stays where it is."""

    def __reduce__(self) -> str:
        raise TypeError("I stay here")


class Unreadable:
    """A record that can be sent and not be received."""

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return int, ("not a number",)


def test_a_record_that_cannot_be_sent_fails_the_job() -> None:
    """The error names the operator that would have received it, the time, and what the record said."""
    flow = tw.Dataflow("unpicklable")
    flow.input("numbers").map(lambda n: (n, Unpicklable())).exchange(lambda pair: pair[0]).probe("done")
    job = started(flow, 2)
    job.input("numbers").send(list(range(20)))
    with pytest.raises(tw.JobError, match=r"input 0 of 'exchange' at time 0 cannot be pickled.*I stay here") as failure:
        job.probe("done").wait_until(1, timeout_s=30)
    assert failure.value.operator == "exchange"
    job.stop()


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_record_that_cannot_be_received_fails_the_job(workers: int) -> None:
    """What the driver or a worker has sent and nobody could unpickle does not leave the job waiting for ever."""
    flow = tw.Dataflow("unreadable")
    flow.input("numbers").exchange(lambda _: 1).probe("done")
    job = started(flow, workers)
    job.input("numbers").send([Unreadable()])
    with pytest.raises(tw.JobError, match="could not take what was sent to it"):
        job.probe("done").wait_until(1, timeout_s=30)
    job.stop()


@pytest.mark.parametrize("completes", [True, False])
def test_what_was_published_can_be_read_after_the_block(completes: bool) -> None:
    """A subscription of the driver itself loses nothing because the driver was busy ending the job, nor delays it."""
    flow = tw.Dataflow("afterwards")
    flow.input("numbers").exchange(lambda n: n).publish("afterwards").probe("done")
    left: Any = nullcontext() if completes else pytest.raises(tw.JobError, match="inputs are open: input 'numbers'")
    with left, started(flow, 2) as job:
        subscription = tw.subscribe("afterwards")
        job.input("numbers").send([1, 2, 3])
        job.input("numbers").advance_to(1)
        job.probe("done").wait_until(1, timeout_s=30)
        if completes:
            job.input("numbers").close()
            job.wait(timeout_s=30)
        begin = time.monotonic()
    assert time.monotonic() - begin < 5
    if completes:
        assert [sorted(epoch.records) for epoch in subscription.epochs()] == [[1, 2, 3]]
    else:
        with pytest.raises(tw.errors.PublisherLost, match="was stopped"):
            list(subscription.epochs())


def test_a_batch_that_cannot_be_sent_leaves_the_job_as_it_was() -> None:
    """The error names the input and what cannot be pickled; the input goes on."""
    flow = tw.Dataflow("refused")
    flow.input("numbers").capture("numbers")
    with started(flow, 1) as job:
        with pytest.raises(tw.JobError, match=r"input 'numbers': a batch cannot be pickled.*lock"):
            job.input("numbers").send([threading.Lock()])
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait(timeout_s=30)
        assert [entry.batch for entry in job.captured("numbers")] == [[1]]


def test_the_end_of_the_block_waits_for_what_the_driver_has_not_heard(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has read a topic to its end leaves the block without a warning, though the driver hears of it later."""
    with caplog.at_level("WARNING"), started(collatz(), 2) as job:
        subscription = tw.subscribe("collatz")
        job.input("numbers").send([6, 7])
        job.input("numbers").close()
        read = [sorted(epoch.records) for epoch in subscription.epochs()]
    assert (read, caplog.text, job.is_complete) == ([[(6, 8), (7, 16)]], "", True)


def test_the_end_of_the_block_waits_for_what_another_process_has_sent(caplog: pytest.LogCaptureFixture) -> None:
    """A task that has closed its handle is heard of by the workers only; what it sent is not lost."""
    with caplog.at_level("WARNING"), started(collatz(), 2) as job:
        fed = ray.remote(feed_walks).options(num_cpus=0).remote(job.input("numbers"), range(2, 42))
        ray.get(fed, timeout=30)
    assert (caplog.text, job.is_complete) == ("", True)
