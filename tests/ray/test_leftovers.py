"""The end of a job, however it ends: no process, actor, topic, socket, directory, shared memory or thread is left."""

import signal
import threading
import uuid
from multiprocessing import get_context
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.driver_program import WORKERS, halving, send_epoch, send_epochs
from tests.ray.leftovers import nothing_left, traces
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


def complete(job: tw.types.Job) -> None:
    send_epoch(job, 0)
    job.input("numbers").close()
    job.wait(timeout_s=DEADLINE_S)


def test_traces_are_seen(topic: str) -> None:
    """While a job runs, its sockets (two for each worker and the driver), publishers, actors and topic are seen."""
    before = traces()
    expected = ["actor"] * 2 + ["publisher"] * 2 + ["socket"] * 6 + ["topic"] + ["worker"] * 2
    with tw.run(halving(topic), workers=WORKERS) as job:
        # A job may run before the processes of its publishers have come up.
        assert eventually(lambda: sorted(trace.split()[0] for trace in traces() - before) == expected)
        complete(job)
    assert eventually(lambda: traces() <= before)


def test_locks_and_folders_of_other_programs_are_no_traces() -> None:
    """Several runs of tests, of simulations and of benchmarks may share a machine; anything else in memory is seen."""
    before = traces()
    lock = get_context("spawn").Lock()  # which has a file in shared memory while it lives
    with TemporaryDirectory(prefix="tidewheel-", dir="/dev/shm"):
        assert traces() == before
    with NamedTemporaryFile(dir="/dev/shm") as left:
        assert traces() == before | {f"memory {left.name}"}
    del lock


def test_a_job_that_completes(topic: str) -> None:
    """Nothing is left of a job that has run to its end, with a subscriber that read all of its topic."""
    with nothing_left() as members:
        with tw.run(halving(topic), workers=WORKERS) as job, tw.subscribe(topic) as subscription:
            members.note(2 * WORKERS)
            complete(job)
            assert [sorted(epoch.records) for epoch in subscription.epochs()] == [
                [1, 1, 1, 1, 1, 3, 3, 3, 5, 5, 7, 7, 9, 11, 13, 15]
            ]
        assert len(members) == 2 * WORKERS


def build_parent(context: tw.OperatorContext) -> Any:
    """Start a process that would outlive its worker's, did nobody end it."""
    import subprocess

    child = subprocess.Popen(["sleep", "300"])

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        assert child.poll() is None
        for lent, batch in input:
            output.send(lent, batch)

    return schedule


def test_a_job_that_is_stopped(topic: str) -> None:
    """Nothing is left of a job that was stopped while epochs were under way, not even what an operator started."""
    with nothing_left() as members:
        flow = halving(topic)
        flow.input("more").unary(build_parent, name="parent")
        job = tw.run(flow, workers=WORKERS)
        for epoch in range(50):
            send_epoch(job, epoch)
        members.note(2 * WORKERS)
        assert len(members) == 3 * WORKERS
        job.stop()


def test_an_operator_that_raises(topic: str) -> None:
    """Nothing is left of a job whose operator raised, though nobody leaves its block or stops it."""
    with nothing_left() as members:
        flow = halving(topic)
        flow.input("divisors").map(lambda n: 1 // n).probe("divided")
        job = tw.run(flow, workers=WORKERS)
        send_epoch(job, 0)
        members.note(2 * WORKERS)
        job.input("divisors").send([0])
        with pytest.raises(tw.JobError, match="ZeroDivisionError"):
            job.probe("divided").wait_until(1, timeout_s=DEADLINE_S)
    assert len(members) == 2 * WORKERS


@pytest.mark.parametrize("worker", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_build_that_raises_in_one_worker(topic: str, worker: int) -> None:
    """Nothing is left of a job that could not be deployed because one of its workers could not be built."""

    def build(context: tw.OperatorContext) -> Any:
        if context.worker == worker:
            raise LookupError("no model")
        return lambda input, output: None

    with nothing_left() as members:
        flow = halving(topic)
        flow.input("more").unary(build, name="predict")
        with pytest.raises(tw.JobError, match=rf"'predict' could not be built on worker {worker}: LookupError"):
            tw.run(flow, workers=WORKERS)
        members.note()


@pytest.mark.parametrize("what", [pytest.param("wait", marks=pytest.mark.long), "send"])
def test_a_driver_that_is_interrupted(ray_cluster: str, topic: str, what: str) -> None:
    """Ctrl-C while the driver waits for its job, or sends: it ends with KeyboardInterrupt and nothing else to say."""
    with nothing_left() as members, DriverProcess(ray_cluster, "tests.ray.driver_program", what, topic) as driver:
        driver.wait_until_it_says("running")
        members.note(2 * WORKERS)
        driver.kill(signal.SIGINT)
        _, errors = driver.ended()
        own = [line for line in errors.splitlines() if "(raylet)" not in line]  # Ray's node may have its own to say
        assert own[-1:] == ["KeyboardInterrupt"]
        assert errors.count("Traceback") == 1
        assert len(members) == 2 * WORKERS


@pytest.mark.long
def test_a_driver_that_is_terminated(ray_cluster: str, topic: str) -> None:
    """SIGTERM ends the program as sys.exit(143) does: it stops its job, and neither Ray nor Python prints a trace."""
    with nothing_left() as members, DriverProcess(ray_cluster, "tests.ray.driver_program", "wait", topic) as driver:
        driver.wait_until_it_says("running")
        members.note(2 * WORKERS)
        driver.kill(signal.SIGTERM)
        _, errors = driver.ended()
        own = [line for line in errors.splitlines() if "(raylet)" not in line]
        assert all("inputs are open: close() 'numbers'" in line for line in own), errors
        assert driver.code == 143


@pytest.mark.long
def test_a_driver_that_ends_while_its_job_runs(ray_cluster: str, topic: str) -> None:
    """Without a with block: the job ends with it, which is no failure of the job, and one line says so."""
    with nothing_left(), DriverProcess(ray_cluster, "tests.ray.driver_program", "end", topic) as driver:
        driver.wait_until_it_says("running")
        _, errors = driver.ended()
        [own] = [line for line in errors.splitlines() if "(raylet)" not in line]
        assert "ends with its driver" in own
        assert driver.code == 0


def test_a_driver_that_is_killed_while_its_job_runs(ray_cluster: str, topic: str) -> None:
    """Ray ends the actors of a driver that is gone; a subscriber elsewhere hears of it; the topic is retracted."""
    with nothing_left() as members, DriverProcess(ray_cluster, "tests.ray.driver_program", "send", topic) as driver:
        driver.wait_until_it_says("running")
        with tw.subscribe(topic) as subscription:
            epochs = subscription.epochs()
            assert next(epochs).records
            members.note(2 * WORKERS)
            driver.kill(signal.SIGKILL)
            driver.ended()
            with pytest.raises(tw.errors.PublisherLost, match=topic):
                list(epochs)
        assert len(members) == 2 * WORKERS


@pytest.mark.long
def test_a_driver_that_is_killed_while_it_deploys(ray_cluster: str, topic: str) -> None:
    """The same when one worker is still being built."""
    with nothing_left() as members, DriverProcess(ray_cluster, "tests.ray.driver_program", "build", topic) as driver:
        members.note(2 * WORKERS)
        driver.kill(signal.SIGKILL)
        driver.ended()
        assert len(members) == 2 * WORKERS


@pytest.mark.long
def test_a_job_in_a_thread_of_the_driver(topic: str) -> None:
    """Nothing is left of a job that one thread feeds and another stops: the feeder hears that it was stopped."""
    heard: list[BaseException] = []

    def feed(job: tw.types.Job) -> None:
        try:
            send_epochs(job, threading.Event())
        except tw.JobError as error:
            heard.append(error)

    with nothing_left() as members:
        job = tw.run(halving(topic), workers=WORKERS)
        feeder = threading.Thread(target=feed, args=[job])
        feeder.start()
        job.probe("done").wait_until(5, timeout_s=DEADLINE_S)
        members.note(2 * WORKERS)
        job.stop()
        feeder.join(DEADLINE_S)
        assert not feeder.is_alive()
    assert "was stopped" in str(heard)
