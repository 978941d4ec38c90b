"""Processes of a job killed at random moments: each time one error that names the cause or a clean end, nothing left.

Ten kills by default: each kind of process while the job deploys, runs and stops, and a worker that hangs. Those while
it runs are long tests, as others show each of them. For 50, or to repeat those of a run (a failure says both figures)::

    TIDEWHEEL_KILLS=50 TIDEWHEEL_KILLS_SEED=1234 python -m pytest tests/ray/test_kills.py
"""

import itertools
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import psutil
import pytest

import tidewheel as tw
from tests.kit.seeds import seed_of
from tests.ray.driver_process import DriverProcess
from tests.ray.driver_program import WORKERS, halving, send_epochs
from tests.ray.leftovers import Members, hosts, nothing_left
from tests.waiting import eventually
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

Victim: TypeAlias = Literal["worker", "publisher", "driver"]
Stage: TypeAlias = Literal["deploying", "running", "stopping"]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
COUNT = int(os.environ.get("TIDEWHEEL_KILLS") or 6)
ENDS_WITHIN_S = 10.0
COMES_UP_WITHIN_S = 60.0
LATEST_S = {"deploying": 1.0, "running": 0.5, "stopping": 0.1}
VICTIMS: tuple[Victim, ...] = ("worker", "publisher", "driver")
STAGES: tuple[Stage, ...] = ("deploying", "running", "stopping")
CASES = [*itertools.product(VICTIMS, STAGES, [signal.SIGKILL]), ("worker", "running", signal.SIGSTOP)]


@dataclass(frozen=True, slots=True)
class Kill:
    """Which of its kind dies, and how long after the stage began."""

    victim: Victim
    stage: Stage
    signal: signal.Signals
    chance: float
    after_s: float

    @classmethod
    def chosen(cls, number: int) -> "Kill":
        """Return the kill of that number under this run's seed."""
        choices = random.Random(f"{SEED} {number}")
        victim, stage, by = CASES[number % len(CASES)]
        return cls(victim, stage, by, choices.random(), choices.random() * LATEST_S[stage])

    def strike(self) -> psutil.Process:
        """Wait as long as was chosen, and send the signal to one of those that are there then."""
        threading.Event().wait(self.after_s)
        living: list[psutil.Process] = []

        def found() -> bool:
            living[:] = hosts(self.victim)
            return bool(living)

        if not eventually(found, 0.0 if self.stage == "stopping" else COMES_UP_WITHIN_S):
            raise ProcessLookupError("all of its kind have ended")
        process = living[int(self.chance * len(living))]
        process.send_signal(self.signal)
        return process


class RunningJob(threading.Thread):
    """Runs a job of this process from its deployment to its end, or to what makes it fail."""

    def __init__(self, topic: str, config: tw.RuntimeConfig) -> None:
        super().__init__(name=f"running {topic}")
        self._topic, self._config = topic, config
        self.running, self.stop, self.stopping = threading.Event(), threading.Event(), threading.Event()
        self.raised: Exception | None = None
        self.pids: list[int] = []

    def run(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.raised = error

    def _run(self) -> None:
        with tw.run(halving(self._topic), workers=WORKERS, config=self._config) as job:
            assert isinstance(job, RayJob)
            self.pids = list(job.pids)
            reader = threading.Thread(target=self._read, name=f"reading {self._topic}")
            reader.start()
            try:
                send_epochs(job, self.stop, self.running)
            finally:
                self.stopping.set()
                job.stop()
                reader.join(ENDS_WITHIN_S)
                assert not reader.is_alive(), "the subscriber has not heard of the end"

    def _read(self) -> None:
        """Read the topic, which is always cut short, sometimes before one can subscribe; only a stop is no error."""
        with pytest.raises(tw.errors.PublisherLost if self.running.is_set() else tw.DeliveryError):
            self._read_to_the_end()

    def _read_to_the_end(self) -> None:
        for _ in tw.subscribe(self._topic, timeout_s=1).epochs():
            pass
        if self.stopping.is_set():
            raise tw.errors.PublisherLost("the job was stopped")


def kill_member(kill: Kill, topic: str, members: Members) -> None:
    """Kill a worker or a publisher of a job of this process."""
    # A tenth of the default where a worker hangs. A very busy machine may leave a process without a core for so long.
    hangs = kill.signal is signal.SIGSTOP
    job = RunningJob(topic, tw.RuntimeConfig(hang_timeout_s=2) if hangs else tw.RuntimeConfig())
    job.start()
    try:
        if kill.stage == "running":
            assert job.running.wait(COMES_UP_WITHIN_S), job.raised
        if kill.stage == "stopping":
            assert job.running.wait(COMES_UP_WITHIN_S), job.raised
            members.note()
            job.stop.set()
            assert job.stopping.wait(COMES_UP_WITHIN_S)
        victim, since = struck(kill), time.monotonic()
        members.note()
        if kill.stage == "deploying":
            job.join(COMES_UP_WITHIN_S)  # the epochs begin when the job is deployed
        else:
            job.join(ENDS_WITHIN_S)
            assert time.monotonic() - since < ENDS_WITHIN_S
        assert not job.is_alive(), "the job has not ended"
    finally:
        job.stop.set()
        job.join(ENDS_WITHIN_S)
    check_error(kill, victim, job)


def struck(kill: Kill) -> psutil.Process | None:
    """Return the process that was hit, None if all had ended already, as those of a job that stops may have."""
    try:
        return kill.strike()
    except (ProcessLookupError, psutil.NoSuchProcess):
        assert kill.stage == "stopping"
        return None


def check_error(kill: Kill, victim: psutil.Process | None, job: RunningJob) -> None:
    """Check that the error names the cause; that there is one, unless the job was being stopped."""
    if job.raised is None:
        assert kill.stage == "stopping"
        return
    assert isinstance(job.raised, tw.JobError), repr(job.raised)
    text = str(job.raised)
    assert victim is not None, text
    if kill.signal is signal.SIGSTOP:
        assert f"(process {victim.pid} on" in text
        assert "hangs" in text
    elif kill.victim == "worker":
        assert "died" in text
        assert f"process {victim.pid} " in text or f"pid: {victim.pid}" in text
        assert job.raised.worker is None or not job.pids or job.pids[job.raised.worker] == victim.pid
    else:
        assert "the publisher is dead" in text
        assert f"pid: {victim.pid}" in text


def kill_driver(kill: Kill, topic: str, members: Members, address: str) -> None:
    """Kill the driver of a job, in a process of its own."""
    with DriverProcess(address, "tests.ray.driver_program", "send", topic) as driver:
        if kill.stage == "deploying":
            assert eventually(lambda: bool(hosts("worker") + hosts("publisher")), COMES_UP_WITHIN_S)
        else:
            driver.wait_until_it_says("running")
            members.note()
        if kill.stage == "stopping":
            driver.tell()
        threading.Event().wait(kill.after_s)
        members.note()
        driver.kill(kill.signal)
        driver.ended()


def numbered(number: int) -> Any:
    """Return the number of a kill as the parameter of a test, with its name."""
    victim, stage, by = CASES[number % len(CASES)]
    marks = [pytest.mark.long] if stage == "running" else []
    return pytest.param(number, id=f"{number}-{victim}-{stage}-{by.name}", marks=marks)


@pytest.mark.parametrize("number", [numbered(number) for number in range(COUNT)])
def test_a_kill_at_a_random_moment(ray_cluster: str, caplog: pytest.LogCaptureFixture, number: int) -> None:
    """One error that names who died or hangs, or a clean end, within 10 s; then nothing is left."""
    kill = Kill.chosen(number)
    how: dict[Victim, Callable[[str, Members], None]] = {
        "worker": lambda topic, members: kill_member(kill, topic, members),
        "publisher": lambda topic, members: kill_member(kill, topic, members),
        "driver": lambda topic, members: kill_driver(kill, topic, members, ray_cluster),
    }
    try:
        with nothing_left(ENDS_WITHIN_S) as members:
            how[kill.victim](f"kill-{number}", members)
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS={COUNT} TIDEWHEEL_KILLS_SEED={SEED}: {kill}")
        raise
    failures = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(failures) <= 1, [record.getMessage() for record in failures]
