"""Failures of snapshots: an error names what cannot be saved; if the folder fails, the job goes on without one."""

import errno
import logging
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.behaviour.runtime.test_snapshots import EXPECTED, begin, counting, counts, send_on
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import settle
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.inputs.fed_job import FedJob
from tidewheel.storage import local_folder


def flow_of(build: Any) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.input("words").unary(build, name="hold").probe("done").capture("counts")
    return flow


def keep_in_a_closure(context: tw.OperatorContext) -> Schedule:
    held: list[Any] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        held.extend(token.retain() for token, _ in input)

    return schedule


def keep_twice(context: tw.OperatorContext) -> Schedule:
    first, second = context.state("first", list), context.state("second", list)

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, _ in input:
            first.append(token.retain())
            second.append(first[-1])

    return schedule


@pytest.mark.parametrize(("build", "where"), [(keep_in_a_closure, "in no state"), (keep_twice, "in several states")])
def test_a_token_that_is_not_once_in_a_state_is_named(build: Any, where: str, tmp_path: Path) -> None:
    """By operator, time and worker, with the remedy; the job fails, as a snapshot would never be right."""
    job = begin(tmp_path / "s", flow_of(build), workers=1)
    job.input("words").advance_to(7)
    job.input("words").send(["a"])
    settle(job)
    with pytest.raises(tw.JobError) as error:
        job.snapshot()
    job.stop()
    assert str(error.value).startswith(
        f"no snapshot can be taken: operator 'hold' has a token for time 7 on worker 0 {where} that the runtime "
        "knows. Keep a token in a notificator, or once in what context.state()"
    )
    assert (error.value.operator, error.value.worker, error.value.time) == ("hold", 0, 7)


def test_a_state_that_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    """By operator and state."""

    def keep_a_generator(context: tw.OperatorContext) -> Schedule:
        kept = context.state("kept", list)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for _, batch in input:
                kept.append(word for word in batch)

        return schedule

    expected = "operator 'hold' keeps something in 'kept' that cannot be pickled: TypeError: cannot pickle 'generator'"
    job = begin(tmp_path / "s", flow_of(keep_a_generator))
    job.input("words").send(["a"])
    settle(job)
    with pytest.raises(tw.JobError, match=expected):
        job.snapshot()
    job.stop()


def test_a_job_without_snapshots_takes_none(tmp_path: Path) -> None:
    """The error says how to."""
    with tw.run(counting(), engine="local") as job:
        with raises(tw.JobError):
            job.snapshot()
        with raises(tw.JobError):
            job.stop(snapshot=True)
        job.stop()


def test_a_paused_job_takes_none(tmp_path: Path) -> None:
    """It says so, and takes one once it was started."""
    snapshots = tw.Snapshots(tmp_path / "s", every_s=0.001)
    with tw.run(counting(), engine="local", paused=True, snapshots=snapshots) as job:
        job.input("words").send(["a"])
        with raises(tw.JobError):
            job.snapshot()
        job.start()
        assert job.snapshot() >= 1
        job.stop()


def test_a_job_that_has_ended_takes_none(tmp_path: Path) -> None:
    """One that was stopped, and one that has failed, say so."""
    job = begin(tmp_path / "s")
    job.stop()
    with raises(tw.JobError):
        job.snapshot()
    job.stop(snapshot=True)
    job = begin(tmp_path / "s")
    FedJob(job.input("words")).fail("gone")
    with raises(tw.JobError):
        job.stop(snapshot=True)
    job.stop()


def test_a_full_disk_costs_a_snapshot_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job goes on and says so; once there is room, the next snapshot is complete, with all that was missed."""

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with begin(tmp_path / "s") as job:
        send_on(job.input("words"), until=2)
        job.snapshot()
        send_on(job.input("words"), until=4)
        with monkeypatch.context() as patch:
            patch.setattr(local_folder, "write_all", full)
            for _ in range(2):
                with raises(tw.errors.SnapshotError):
                    job.snapshot()
        assert [record.levelno for record in caplog.records if "could not be taken" in record.message] == [
            logging.WARNING
        ] * 2
        send_on(job.input("words"), until=5)
        job.stop(snapshot=True)
    with begin(tmp_path / "s") as job:
        assert job.input("words").position.batches == 5
        send_on(job.input("words"))
        job.input("words").close()
        job.wait()
        assert counts(job) == EXPECTED


def test_a_folder_that_is_away_for_a_while_costs_snapshots_and_nothing_else(tmp_path: Path) -> None:
    """As a file system that was not mounted: the parts that were missed are written later."""
    folder, away = tmp_path / "s", tmp_path / "away"
    with begin(folder) as job:
        send_on(job.input("words"), until=2)
        job.snapshot()
        folder.rename(away)
        folder.write_text("not a folder")
        send_on(job.input("words"), until=4)
        for _ in range(2):
            with raises(tw.errors.SnapshotError):
                job.snapshot()
        folder.unlink()
        away.rename(folder)
        send_on(job.input("words"), until=5)
        job.stop(snapshot=True)
    with begin(folder) as job:
        assert job.input("words").position.batches == 5
        send_on(job.input("words"))
        job.input("words").close()
        job.wait()
        assert counts(job) == EXPECTED


def test_a_folder_that_was_removed_costs_snapshots_and_nothing_else(tmp_path: Path) -> None:
    """The log says who owns it, and that is gone: the error tells that its snapshots are lost, and the job goes on."""
    with begin(tmp_path / "s") as job:
        send_on(job.input("words"), until=2)
        job.snapshot()
        shutil.rmtree(tmp_path / "s")
        for _ in range(2):
            with raises(tw.errors.SnapshotError):
                job.snapshot()
            assert not [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
        send_on(job.input("words"))
        job.input("words").close()
        job.wait()
        assert counts(job) == EXPECTED


def test_what_waits_for_a_snapshot_fails_once_there_can_be_none(tmp_path: Path) -> None:
    """Otherwise the job would never end."""
    flow = tw.Dataflow("test")
    flow.input("words").publish("waits for a snapshot", visible="snapshot")

    def run_without_folder() -> None:
        with tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path / "s", every_s=1e9)) as job:
            job.input("words").send(["a"])
            job.snapshot()
            shutil.rmtree(tmp_path / "s")
            job.input("words").close()
            job.wait()

    with raises(tw.errors.SnapshotError):
        run_without_folder()


def test_added_dataflows_are_not_in_a_snapshot(tmp_path: Path) -> None:
    """They run on, and are to be added again; they take no snapshots of their own."""

    def more() -> tw.Dataflow:
        flow = tw.Dataflow("more")
        flow.input("numbers").capture("numbers")
        return flow

    with begin(tmp_path / "s") as job:
        added = job.add(more())
        added.input("numbers").send([1])
        send_on(job.input("words"), until=2)
        job.snapshot()
        with raises(tw.JobError):
            added.snapshot()
        added.input("numbers").close()
        added.wait()
        assert counts(added, "numbers") == Counter({(0, 1): 1})
        job.stop()
    with begin(tmp_path / "s") as job:
        assert not job.dataflows
        added = job.add(more())
        assert added.input("numbers").position.batches == 0
        added.input("numbers").close()
        send_on(job.input("words"))
        job.input("words").close()
        job.wait()
        assert counts(job) == EXPECTED
