"""The command line, in a process of its own, on the topics of a job on Ray."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tidewheel.__main__ import main

pytestmark = pytest.mark.ray

_DEADLINE_S = 60.0


def command(address: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it to its end."""
    return subprocess.run(
        [sys.executable, "-m", "tidewheel", *arguments],
        env={**os.environ, "RAY_ADDRESS": address},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )


@pytest.mark.long
def test_topics_and_tail_in_another_process(ray_cluster: str) -> None:
    """A topic is listed while its job runs, and its records come, filtered where they are published."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers", int).exchange(lambda n: n).publish("numbers on ray")
    with tw.run(flow, workers=2) as job:
        listed = command(ray_cluster, "topics")
        assert listed.returncode == 0, listed.stderr
        assert any(line.startswith(f"numbers on ray  {job.name}  2 ") for line in listed.stdout.splitlines())
        found: list[subprocess.CompletedProcess[str]] = []
        tail = ("tail", "numbers on ray", "--epochs", "--where", "record>2")
        reader = threading.Thread(target=lambda: found.append(command(ray_cluster, *tail)))
        reader.start()
        job.topic("numbers on ray").wait_for_subscribers(1, timeout_s=_DEADLINE_S)
        with job.input("numbers") as numbers:
            numbers.send([1, 2, 3, 4])
            numbers.advance_to(1)
            numbers.send([6])
        job.wait(timeout_s=_DEADLINE_S)
        reader.join(_DEADLINE_S)
    assert [(ran.returncode, sorted(ran.stdout.splitlines())) for ran in found] == [(0, ["0\t3", "0\t4", "1\t6"])]


def test_a_topic_that_nobody_publishes(ray_cluster: str) -> None:
    """One line that says so, with those that there are, and exit code 1."""
    ran = command(ray_cluster, "tail", "no such topic", "--timeout", "0.1")
    assert ran.returncode == 1
    joined, error = ran.stderr.strip().splitlines()
    assert joined == f"tidewheel: this process has joined the Ray cluster at {ray_cluster}, namespace 'tidewheel'"
    assert error.startswith(
        "tidewheel: no job published topic 'no such topic' within 0.1 s; topics that exist here and"
    )
    assert f"on the Ray cluster at {ray_cluster}, namespace 'tidewheel': " in error


def test_a_namespace_has_topics_of_its_own(ray_cluster: str) -> None:
    """``--address`` and ``--namespace`` go before the environment; what others publish there is not found here."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers", int).publish("numbers of a namespace")
    with tw.run(flow) as job:
        here = command("127.0.0.1:1", "topics", "--address", ray_cluster)
        there = command("127.0.0.1:1", "topics", "--address", ray_cluster, "--namespace", "other")
        job.stop()
    assert "numbers of a namespace" in here.stdout, here.stderr
    assert there.returncode == 0
    assert "numbers of a namespace" not in there.stdout
    assert "namespace 'other'" in there.stderr


def test_letters_of_a_log_are_sent_again_once(
    ray_cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log keeps them for the subscription of the command, until a snapshot of the job has their records."""

    def refuse(order: tuple[int, str]) -> tuple[int, str]:
        if order[1] == "bad":
            raise ValueError("bad")
        return order

    def resend(*more: str) -> list[str]:
        capsys.readouterr()
        assert main(["resend", "bad orders on ray", "orders on ray", "again", "--idle", "1", *more]) == 0
        return capsys.readouterr().out.splitlines()

    flow = tw.Dataflow("orders on ray")
    letters = flow.dead_letters()
    flow.inbox("orders").map(refuse, dead_letters=letters).ignore()
    letters.publish("bad orders on ray", log=tw.Log(tmp_path / "log"))
    flow.inbox("again").publish("orders again", wait_for=1)
    with tw.run(flow, workers=2, snapshots=tw.Snapshots(tmp_path / "snapshots", every_s=0.5)) as job:
        with tw.subscribe("orders again") as received:
            assert resend()[-1].startswith("0 letters sent")  # from now on the log keeps letters
            job_by_name = tw.job(job.name).input("orders")
            for number in range(4):
                job_by_name.send([(number, "bad"), (number, "good")])
            assert resend("--dry-run")[-1].startswith("4 letters would be sent")
            lines = resend()
            assert lines[-1].startswith("4 letters sent")
            assert resend()[-1].startswith("0 letters sent")
            found: list[Any] = []
            for epoch in received.epochs(timeout_s=_DEADLINE_S):
                found += epoch.records
                if len(found) >= 4:
                    break
        job.stop()
    assert sorted(found) == [(number, "bad") for number in range(4)]
