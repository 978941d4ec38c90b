"""The conditions of a feed for an epoch to be committed by Spark. There is no Spark."""

from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.unit.spark_bridge.structured_streaming.test_feed_query import FakeQuery
from tidewheel.spark_bridge import BridgeError
from tidewheel.spark_bridge.structured_streaming.feed import _check_progress
from tidewheel.spark_bridge.structured_streaming.feed_query import StreamingFeed


def fed(job: tw.types.Job, patch: pytest.MonkeyPatch) -> StreamingFeed:
    """Feed an input of a job by a query without micro-batches, which commits after a probe."""
    query: Any = FakeQuery(patch)
    return StreamingFeed(job.input("rows"), query, "the/checkpoint", job.probe("done"))


def two_inputs() -> tw.Dataflow:
    flow = tw.Dataflow("two")
    flow.input("rows").concat(flow.input("others")).map(lambda number: 1 // number).probe("done")
    return flow


def test_an_epoch_waits_for_another_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the local engine, too, where nothing is left to do meanwhile: the job is healthy, and the epoch not done."""
    with tw.run(two_inputs(), engine="local") as job:
        feeding = fed(job, monkeypatch)
        job.input("rows").advance_to(1)
        assert not feeding._may_commit(0)
        job.input("others").advance_to(1)
        assert feeding._may_commit(0)
        assert not feeding._may_commit(1)
        job.input("rows").close()
        job.input("others").close()
        job.wait()


@pytest.mark.parametrize("fails", [True, False])
def test_an_epoch_is_not_waited_for_in_vain(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the job has failed, or was stopped, that is an error."""
    job = tw.run(two_inputs(), engine="local")
    feeding = fed(job, monkeypatch)
    if fails:
        job.input("rows").send([0])
    else:
        job.stop()
    with pytest.raises(tw.JobError, match="ZeroDivisionError" if fails else "was stopped"):
        feeding._may_commit(0)
    job.stop()


def test_what_is_never_durable_is_refused_at_once() -> None:
    """Before a query is started, which would send a micro-batch first."""
    flow = tw.Dataflow("fleeting")
    flow.input("rows").publish("fleeting")
    wrong: Any = "done"
    with tw.run(flow, engine="local") as job:
        with raises(BridgeError):
            _check_progress(job.topic("fleeting"))
        with raises(BridgeError):
            _check_progress(wrong)
        job.input("rows").close()
        job.wait()
    with tw.run(two_inputs(), engine="local") as job:
        _check_progress(job.probe("done"))
        _check_progress(None)
        job.stop()
