"""A query that feeds a job with snapshots: Spark commits what a snapshot has. The query is one without Spark."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.unit.spark_bridge.structured_streaming.test_feed_query import DEADLINE_S, FakeQuery, begun, captured
from tidewheel.spark_bridge import BridgeError
from tidewheel.spark_bridge.structured_streaming.feed_query import StreamingFeed


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> FakeQuery:
    return FakeQuery(monkeypatch)


@contextmanager
def kept(folder: Path) -> Iterator[tw.types.Job]:
    """Run a job that keeps snapshots only when it is asked to."""
    flow = tw.Dataflow("fed")
    flow.input("rows").capture("rows").probe("done")
    job = tw.run(flow, engine="local", workers=2, snapshots=tw.Snapshots(folder, every_s=1000))
    try:
        yield job
    finally:
        job.stop()


def test_a_micro_batch_is_committed_when_a_snapshot_has_it(query: FakeQuery, tmp_path: Path) -> None:
    """So a later run has all that Spark has committed, and what Spark delivers again is dropped or sent."""
    with kept(tmp_path) as job:
        begun(job, query)
        query.run(0, 1, 2)
        query.run(1, 3)
        job.stop()
    with kept(tmp_path) as job:
        assert job.input("rows").position == tw.types.InputPosition(2, 2, 3)
        feeding = begun(job, again := FakeQuery(query.patch))
        again.run(1, 3)
        again.run(2, 4)
        again.end()
        feeding.wait(DEADLINE_S)
        job.wait(DEADLINE_S)
        assert sorted(captured(job)) == [(0, [1, 2]), (1, [3]), (2, [4])]
    with kept(tmp_path) as job:
        assert job.input("rows").is_closed
        job.stop()


@pytest.mark.parametrize("found", ["an older snapshot", "none"])
def test_a_job_that_lacks_what_spark_has_committed_fails(query: FakeQuery, tmp_path: Path, found: str) -> None:
    """Spark does not send it again, so the feed does not go on as if nothing were missing."""
    folder, older = tmp_path / "snapshots", tmp_path / "older"
    with kept(folder) as job:
        begun(job, query)
        query.run(0, 1)
        shutil.copytree(folder, older)
        query.run(1, 2)
        query.run(2, 3)
        job.stop()
    shutil.rmtree(folder)
    if found != "none":
        older.rename(folder)
    with kept(folder) as job:
        feeding = begun(job, again := FakeQuery(query.patch))
        again.run(3, 4)
        check_lacks(job, feeding, at=0 if found == "none" else 1, uncommitted=3)
        job.stop()


def test_a_job_that_goes_back_behind_what_spark_has_committed_fails(query: FakeQuery, tmp_path: Path) -> None:
    """As when a worker dies, and the last snapshot is damaged, while the query runs."""
    with kept(tmp_path) as job:
        handle = job.input("rows")
        feeding = begun(job, query)
        query.run(0, 1)
        before = handle.position
        query.run(1, 2)
        query.run(2, 3)
        handle._go_back(handle._feed, handle.number, before)
        query.run(3, 4)
        check_lacks(job, feeding, at=1, uncommitted=3)
        job.stop()


def check_lacks(job: tw.types.Job, feeding: StreamingFeed, at: int, uncommitted: int) -> None:
    """Both fail, and say what is lost, where, and what helps."""
    said = (
        f"input 'rows' is at micro-batch {at} in .* Spark has committed all before {uncommitted} in the checkpoint "
        "the/checkpoint, .* both a new checkpoint and a new folder of snapshots"
    )
    with pytest.raises(BridgeError, match=said):
        feeding.wait(DEADLINE_S)
    with pytest.raises(tw.JobError, match=said):
        job.wait(DEADLINE_S)


def test_a_micro_batch_is_sent_again_if_the_job_goes_back(query: FakeQuery, tmp_path: Path) -> None:
    """Before Spark has committed it; the rows are those that it had."""
    with kept(tmp_path) as job:
        check_sent_again(job, query)
        job.stop()


def check_sent_again(job: tw.types.Job, query: FakeQuery) -> None:
    handle, computed = job.input("rows"), []
    before, is_first = handle.position, True

    def save(timeout_s: float) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            handle._go_back(handle._feed, handle.number, before)

    def rows_of(df: Any, name: str) -> Any:
        computed.append(df)
        return df

    query.patch.setattr(handle._feed, "save", save)
    begun(job, query, rows_of=rows_of)
    query.run(0, 1, 2)
    assert len(computed) == 1
    assert (handle.position.batches, handle.time) == (1, 1)
    assert handle.statistics.batches == 2
