"""The jobs of a cluster, seen from another process: ``tidewheel jobs`` and ``tidewheel explain``."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tidewheel as tw
from tests.kit.terminal.pseudo_terminal import ENTERS, LEAVES, PseudoTerminal
from tests.ray.driver_process import DriverProcess
from tests.waiting import eventually
from tidewheel.__main__ import main

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


class Secret:
    """A record of a class that no other process can import."""


@contextmanager
def running_job(name: str) -> Iterator[tw.types.Job]:
    """A job with an input at time 1, and one that was added to it, which is paused."""
    flow = tw.Dataflow(name)
    flow.input("numbers").map(lambda n: (n, Secret())).exchange(lambda pair: pair[0]).probe("done").publish(
        f"{name}/topic"
    )
    added = tw.Dataflow("added")
    added.input("more").probe("later")
    with tw.run(flow, workers=2) as running:
        running.add(added, paused=True)
        running.input("numbers").send([1, 2, 3])
        running.input("numbers").advance_to(1)
        running.probe("done").wait_until(1, DEADLINE_S)
        yield running
        running.stop()


@pytest.fixture(scope="module")
def job(ray_cluster: str) -> Iterator[tw.types.Job]:
    """A job that the tests look at, and leave as it is."""
    with running_job("seen") as job:
        yield job


@pytest.fixture
def own_job() -> Iterator[tw.types.Job]:
    """A job of one test, which ends it."""
    with running_job("ended") as job:
        yield job


def said_by(address: str, *arguments: str) -> tuple[list[str], str, int | None]:
    """Return the lines, the errors and the exit code of a command; that it has joined the cluster is no error."""
    with DriverProcess(address, "tidewheel", *arguments) as command:
        output, errors = command.ended(DEADLINE_S)
        others = [line for line in errors.splitlines() if "has joined the Ray cluster" not in line]
        return output.splitlines(), "\n".join(others), command.code


def test_another_process_sees_jobs_and_what_holds_them_back(ray_cluster: str, job: tw.types.Job) -> None:
    """Without the dataflow, its classes or a topic; jobs that have ended are gone."""
    lines, errors, code = said_by(ray_cluster, "jobs")
    assert (errors, code) == ("", 0)
    rows = [line.split(None, 3) for line in lines]
    assert rows[0] == ["JOB", "STATE", "WORKERS", "PROBES"]
    assert [job.name, "running", "2", "done: 1"] in rows
    assert [job.dataflows["added"].name, "paused", "2", "later: 0"] in rows
    lines, errors, code = said_by(ray_cluster, "explain", "seen", "done")
    assert (errors, code) == ("", 0)
    assert lines[0] == "'done' waits: times from 1 on can still arrive there"
    assert any("input 'numbers' is at time 1 on workers 0, 1" in line for line in lines)
    assert any("has to advance_to(...) or close()" in line for line in lines)


def test_a_job_that_completes_and_ends(capsys: pytest.CaptureFixture[str], own_job: tw.types.Job) -> None:
    """It is listed as complete while its block lasts, then no more."""
    own_job.input("numbers").close()

    def listed() -> str:
        assert main(["jobs"]) == 0
        return next((line for line in capsys.readouterr().out.splitlines() if line.startswith(own_job.name)), "")

    assert eventually(lambda: "complete  2        done: ended" in listed())
    own_job.stop()
    assert eventually(lambda: listed() == "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["seen", "missing"],
            "dataflow 'seen' has no probe, topic or capture 'missing'; it has ['done', 'seen/topic']",
        ),
        (["missing", "done"], "no jobs 'missing' run on the cluster: name one of"),
    ],
)
@pytest.mark.usefixtures("job")
def test_what_is_not_there_is_told(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what there is instead."""
    assert main(["explain", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_paused_dataflow_says_so(capsys: pytest.CaptureFixture[str], job: tw.types.Job) -> None:
    """The explanation names the call that is missing, also for a dataflow that was added to another job."""
    assert main(["explain", job.dataflows["added"].name, "later"]) == 0
    assert "call start()" in capsys.readouterr().out


def test_another_process_prints_what_a_job_does(ray_cluster: str, job: tw.types.Job) -> None:
    """Its operators, its workers, and what holds back the probe, in the words of explain."""
    lines, errors, code = said_by(ray_cluster, "top", "seen", "--once")
    assert (errors, code) == ("", 0)
    assert lines[0].startswith(f"{job.name}  running for ")
    assert lines[0].endswith(", 2 workers on ray")
    assert any("input 'numbers' is at time 1 on workers 0, 1" in line for line in lines)
    assert {"OPERATOR", "TOPIC", "WORKER"} <= {line.split()[0] for line in lines if line}
    assert any(line.startswith("exchange ") for line in lines)


@pytest.mark.long
def test_a_person_watches_a_job_until_it_ends(ray_cluster: str, own_job: tw.types.Job) -> None:
    """The terminal shows rates as records flow, then that the job has ended, and why; q quits."""
    with PseudoTerminal("-m", "tidewheel", "top", own_job.name, RAY_ADDRESS=ray_cluster) as terminal:
        assert terminal.shows(f"{own_job.name}  running", "input numbers", "exchange", "WORKER")
        own_job.input("numbers").advance_to(7)
        assert eventually(lambda: re.search(r"^exchange +.* 7 ", terminal.screen, re.MULTILINE) is not None)
        own_job.stop()
        assert terminal.shows(f"{own_job.name}  stopped")
        terminal.press("q")
        assert terminal.ended()[0] == 0
        assert terminal.sent.count(ENTERS) == terminal.sent.count(LEAVES) == 1
