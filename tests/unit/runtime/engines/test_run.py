"""Running a dataflow: what `run` takes."""

import re
from typing import Any, Literal

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import feed, flow_of, run_flow, scheduled
from tidewheel.runtime.description.plan import Schedule


def times_two(input: tw.InputPort, output: tw.OutputPort) -> None:
    for lent, batch in input:
        output.send(lent, [number * 2 for number in batch])


@pytest.mark.parametrize("flow", [None, "flow", [], tw.Dataflow, tw.Dataflow("flow").input("numbers")])
def test_only_a_dataflow_runs(flow: Any) -> None:
    """The error shows what it was instead."""
    with raises(tw.GraphError):
        tw.run(flow, engine="local")


@pytest.mark.parametrize("workers", [0, -1, 1025, 1.0, "2", True, None])
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_each_worker_has_a_shard(workers: Any, engine: Literal["local", "ray"]) -> None:
    """The error names the dataflow, the limit and the value, before anything is started."""
    message = f"dataflow 'test': workers must be a whole number from 1 to 1024, the number of shards, not {workers!r}"
    with pytest.raises(tw.GraphError, match=re.escape(message)):
        tw.run(flow_of(scheduled(times_two)), workers=workers, engine=engine)


@pytest.mark.parametrize("engine", ["Local", "spark", None, ""])
def test_there_are_two_engines(engine: Any) -> None:
    """A typing error is told so, and does not start Ray."""
    with raises(tw.GraphError):
        tw.run(flow_of(scheduled(times_two)), engine=engine)


def test_a_wrong_dataflow_is_refused_before_anything_is_built() -> None:
    """No build function is called, no topic begun."""
    built: list[int] = []

    def build(context: tw.OperatorContext) -> Schedule:
        built.append(context.worker)
        return times_two

    flow = flow_of(build)
    flow.feedback()
    with raises(tw.GraphError):
        tw.run(flow, engine="local")
    assert built == []


def test_a_dataflow_may_run_several_times_also_at_once() -> None:
    """Each run is a job of its own, with its own inputs, captures and operators."""
    flow = flow_of(scheduled(times_two))
    with tw.run(flow, engine="local") as one, tw.run(flow, engine="local") as other:
        assert one.name != other.name
        feed(one, [1])
        feed(other, [2])
        one.wait()
        other.wait()
        assert [job.captured("results")[0].batch for job in (one, other)] == [[2], [4]]
    assert run_flow(flow, [3]) == [(0, [6])]


def test_a_description_may_grow_after_it_was_run() -> None:
    """A job has the dataflow as it was when it was run."""
    flow = flow_of(scheduled(times_two))
    with tw.run(flow, engine="local") as job:
        flow.input("late").capture("later")
        feed(job, [1])
        job.wait()
        with raises(tw.JobError):
            job.captured("later")
    with tw.run(flow, engine="local") as job:
        assert job.plan.captures.keys() == {"results", "later"}
        job.stop()


def test_a_paused_job_waits_for_start() -> None:
    """It is deployed and takes records, but nothing runs; who waits for it is told what is missing."""
    with tw.run(flow_of(scheduled(times_two)), engine="local", paused=True) as job:
        feed(job, [1])
        with raises(tw.JobError):
            job.wait()
        assert job.captured("results") == []
        job.start()
        job.start()
        job.wait()
        assert [result.batch for result in job.captured("results")] == [[2]]


def test_times_of_ones_own() -> None:
    """A dataflow may have any partially ordered times: here pairs, where neither of two may be the earlier."""
    domain = tw.progress.ProductDomain(tw.progress.IntegerDomain(), tw.progress.IntegerDomain())
    flow = tw.Dataflow("test", domain)
    flow.input("left").concat(flow.input("right")).probe("both").capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        assert job.input("left").time == (0, 0)
        job.input("left").advance_to((0, 3))
        job.input("right").advance_to((2, 0))
        job.input("left").send(["left"])
        job.input("right").send(["right"])
        with raises(tw.errors.TokenError):
            job.input("left").advance_to((1, 2))
        job.probe("both").wait_until((0, 0))
        job.probe("both").wait_until((0, 3))
        assert set(job.probe("both").frontier) == {(0, 3), (2, 0)}
        for name in ("left", "right"):
            job.input(name).close()
        job.wait()
        assert sorted(result.time for result in job.captured("results")) == [(0, 3), (2, 0)]


def test_a_dataflow_of_one_time() -> None:
    """With the unit domain there is nothing to advance to: it is over when the inputs are closed."""
    flow = tw.Dataflow("test", tw.progress.UnitDomain())
    flow.input("numbers").map(lambda number: number + 1).capture("results")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(())
        job.input("numbers").close()
        job.wait()
        assert [(result.time, result.batch) for result in job.captured("results")] == [((), [2])]


def test_a_cluster_that_cannot_be_reached_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the address, and what may be wrong."""
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    flow = tw.Dataflow("lost")
    flow.input("numbers").capture("numbers")
    with raises(tw.JobError):
        tw.run(flow)
