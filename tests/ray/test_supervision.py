"""The driver's view of its workers and publishers: what they say, and the one cause of their end."""

import json
import os
import queue
import re
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.driver_program import WORKERS, halving, send_epoch
from tests.ray.leftovers import hosts, nothing_left
from tests.waiting import eventually
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.runtime.engines.worker_watch import WorkerWatch

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
ENDS_WITHIN_S = 10.0
LABELLED = re.compile(r"\(talk worker (\d) of 2, \d+ operators pid=\d+\) \[exchange > map\] (\w+) (\d+)$")
COLOUR = re.compile(r"\x1b\[\d+m")


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


def started(flow: tw.Dataflow, **settings: Any) -> RayJob:
    job = tw.run(flow, workers=WORKERS, config=tw.RuntimeConfig(**settings))
    assert isinstance(job, RayJob)
    return job


def labelled(line: str) -> tuple[int, str, int] | None:
    """Return worker, word and number of a line that an operator wrote."""
    match = LABELLED.search(COLOUR.sub("", line))
    return None if match is None else (int(match[1]), match[2], int(match[3]))


def test_what_operators_write_says_who_they_are(ray_cluster: str) -> None:
    """Each line of what they print or log comes to the driver's output, with dataflow, worker and operator."""
    found = []
    with nothing_left(), DriverProcess(ray_cluster, "tests.ray.talk_program", RAY_DEDUP_LOGS="0") as driver:
        for line in driver.lines():
            found += [said] if (said := labelled(line)) else []
            if len(found) == 8:
                break
        driver.tell()
        _, errors = driver.ended()
    found += [said for line in errors.splitlines() if (said := labelled(line))]
    worker_of = {number: worker for worker, word, number in found if word == "got"}
    assert sorted(worker_of) == [1, 2, 3, 4]
    assert set(worker_of.values()) == {0, 1}
    assert sorted(found) == sorted(
        (worker, word, number + more)
        for number, worker in worker_of.items()
        for word, more in [("got", 0), ("and", 100), ("saw", 0), ("logged", 0)]
    )


@pytest.mark.long
def test_lines_of_json_say_where_they_come_from(ray_cluster: str) -> None:
    """Each comes to the driver, though Ray shows similar lines of text once; after Ray's label it is a line of JSON."""
    with nothing_left(), DriverProcess(ray_cluster, "tests.ray.talk_program", TIDEWHEEL_LOG_FORMAT="json") as driver:
        found = []
        for line in driver.errors():
            label, begin, rest = COLOUR.sub("", line).partition('{"time"')
            if begin and "logged" in rest:
                assert re.fullmatch(r"\(talk worker \d of 2, \d+ operators pid=\d+\) ", label)
                found.append(json.loads(begin + rest))
            if len(found) == 4:
                break
        driver.tell()
        driver.ended()
    assert sorted(line["message"] for line in found) == [f"logged {number}" for number in range(1, 5)]
    assert {line["operator"] for line in found} == {"exchange > map"}
    assert {line["worker"] for line in found} == {0, 1}
    assert {line["job"].rpartition("-")[0] for line in found} == {"talk"}


@pytest.mark.long
def test_workers_log_from_the_level_of_the_driver_on(ray_cluster: str) -> None:
    """At DEBUG each says when it starts, how far its probes have come, and when it is complete, with its records."""
    with nothing_left(), DriverProcess(ray_cluster, "tests.ray.talk_program", "DEBUG", RAY_DEDUP_LOGS="0") as driver:
        said = [next(driver.lines()) for _ in range(8)]  # what the operators print
        driver.tell()
        _, errors = driver.ended()
    assert not any("DEBUG" in line for line in said)
    for worker in range(2):
        own = [line for line in COLOUR.sub("", errors).splitlines() if f"(talk worker {worker} " in line]
        told = [line.split("DEBUG tidewheel.runtime.worker.worker_loop: ")[1] for line in own if "DEBUG" in line]
        assert f"worker {worker} of 2 starts 'talk'" in told
        assert any("reached: done: 0; 0 records passed" in line for line in told)
        assert re.fullmatch(rf"worker {worker}, 'talk': complete; reached: done: ended; \d+ records .*", told[-1])


def test_a_worker_that_is_stopped_hangs(topic: str) -> None:
    """A worker's process that is alive and does nothing fails the job: the error says so, and its process ends.

    Over Ray's calls; over sockets `test_kills` has it.
    """
    with nothing_left() as members:
        job = started(halving(topic), hang_timeout_s=2, link="ray")
        send_epoch(job, 0)
        members.note()
        os.kill(job.pids[1], signal.SIGSTOP)
        since = time.monotonic()
        job.input("numbers").close()
        with pytest.raises(tw.JobError, match=rf"worker 1 of job .*process {job.pids[1]} .*hangs") as failure:
            job.wait(timeout_s=DEADLINE_S)
        assert time.monotonic() - since < ENDS_WITHIN_S
        assert failure.value.worker == 1
        job.stop()


def build_patient(file: Path, context: tw.OperatorContext) -> Any:
    """Build an operator that does not return before there is a file."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            assert eventually(file.exists, DEADLINE_S)
            output.send(lent, batch)

    return schedule


@pytest.mark.long
def test_an_operator_that_takes_long_does_not_hang(tmp_path: Path) -> None:
    """A job whose operators are busy for longer than it takes to find that a process hangs goes on, and completes."""
    file = tmp_path / "now"
    flow = tw.Dataflow("patience")
    flow.input("numbers").exchange(lambda n: n).unary(
        lambda context: build_patient(file, context), name="patient"
    ).probe("done")
    with started(flow, hang_timeout_s=2) as job:
        job.input("numbers").send([0, 1, 2, 3])
        job.input("numbers").close()
        with pytest.raises(TimeoutError):  # while both workers are inside of the operator
            job.wait(timeout_s=5.5)
        file.touch()
        job.wait(timeout_s=DEADLINE_S)


@pytest.mark.long
def test_a_death_is_told_before_lost_connections(topic: str) -> None:
    """When the driver learns at once that a worker died and that its peers have lost it, the death is the error."""
    with nothing_left() as members:
        job = started(halving(topic))
        send_epoch(job, 0)
        job.probe("done").wait_until(1, timeout_s=DEADLINE_S)
        members.note()
        actors = vars(job)["_workers"].actors
        feed, looks, may_look = vars(job)["_feed"], threading.Event(), threading.Event()
        told: queue.Queue[tw.JobError] = queue.Queue()
        lose = feed.lose

        def lose_later(error: tw.JobError) -> None:
            told.put(error)
            may_look.wait(DEADLINE_S)
            lose(error)

        def look() -> None:
            looks.set()
            may_look.wait(DEADLINE_S)

        # The driver does nothing about what its connections or the workers tell it, and hears of no death.
        vars(feed)["lose"] = lose_later
        vars(vars(job)["_attachments"])["check"] = look
        assert looks.wait(DEADLINE_S)
        os.kill(job.pids[1], signal.SIGKILL)
        lost_peer = told.get(timeout=DEADLINE_S)
        assert "the connection to worker 1 has broken" in str(lost_peer)
        watch = WorkerWatch(job.name, actors, ["process A", "process B"], DEADLINE_S)
        assert "(process B) died" in str(watch.death_behind(lost_peer))
        lost = tw.JobError("a publisher is lost, which was on the same node")
        assert "(process B) died" in str(watch.death_behind(lost))
        may_look.set()
        with pytest.raises(tw.JobError, match=rf"worker 1 of job .*process {job.pids[1]} .*died") as failure:
            job.wait(timeout_s=ENDS_WITHIN_S)
        assert failure.value.worker == 1
        assert "connection to" not in str(failure.value)
        job.stop()


def test_a_dead_publisher_is_noticed_when_nothing_is_published(topic: str) -> None:
    """A job that waits for input fails when a publisher dies; the error names topic and partition."""
    with nothing_left() as members:
        job = started(halving(topic))
        send_epoch(job, 0)
        job.probe("done").wait_until(1, timeout_s=DEADLINE_S)
        members.note()
        hosts("publisher")[0].kill()
        with pytest.raises(tw.JobError, match=rf"topic '{topic}', partition \d: the publisher is dead"):
            job.probe("done").wait_until(2, timeout_s=ENDS_WITHIN_S)
        job.stop()


@pytest.mark.long
def test_a_job_stops_in_time_though_a_publisher_hangs(topic: str) -> None:
    """`stop` does not wait again and again for one that does not answer, and ends it."""
    with nothing_left() as members:
        job = started(halving(topic))
        send_epoch(job, 0)
        members.note()
        hosts("publisher")[0].suspend()
        since = time.monotonic()
        job.stop()
        assert time.monotonic() - since < ENDS_WITHIN_S
