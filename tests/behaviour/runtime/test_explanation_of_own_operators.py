"""`Job.explain` where an operator of the library keeps a token by design: it says what the operator waits for."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, settle
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.explaining.explainer import Explainer
from tidewheel.runtime.explaining.job_view import JobView

EVERY_S = 600.0


class Nowhere(tw.Sink):
    """Stores nothing."""

    def commit(self, epoch: Any, parts: list[Any]) -> None:
        """Ignore it."""

    def last_committed(self) -> None:
        """Return nothing."""


def sink(flow: tw.Dataflow, folder: Path) -> tw.Stream[Any]:
    return flow.input("numbers").sink(Nowhere())


def topic(flow: tw.Dataflow, folder: Path) -> tw.Stream[Any]:
    return flow.input("numbers").publish("seen by snapshot", visible="snapshot")


def running_without_a_snapshot(make: Callable[[tw.Dataflow, Path], tw.Stream[Any]], folder: Path) -> tw.types.Job:
    """Return a job that has all of an epoch but the snapshot that shows it."""
    flow = tw.Dataflow("healthy")
    make(flow, folder).probe("stored")
    job = tw.run(flow, engine="local", snapshots=tw.Snapshots(folder / "snapshots", every_s=EVERY_S))
    job.input("numbers").send([1])
    job.input("numbers").advance_to(1)
    assert isinstance(job, LocalJob)
    while job._rounds.run():  # where nothing else is left to do, the driver of a local job begins a snapshot
        pass
    return job


def test_a_sink_that_waits_for_a_snapshot_says_so(tmp_path: Path) -> None:
    """No leak is spoken of in a healthy job; the next snapshot is named, with the seconds until it begins."""
    with running_without_a_snapshot(sink, tmp_path) as job:
        said = str(job.explain("stored"))
        assert "leak" not in said
        assert any(f"and waits for the next snapshot, in {left} s" in said for left in (600, 599, 598)), said
        assert "job.snapshot() takes one now" in said
        assert "waits for the next snapshot, in" in job._standing(job._standing(None)).waits_for
        job.snapshot(DEADLINE_S)
        job.probe("stored").wait_until(1, DEADLINE_S)
        job.stop()


def test_a_topic_that_waits_for_a_snapshot_says_so(tmp_path: Path) -> None:
    """The operator behind ``visible="snapshot"`` is the same; a process that is not the driver says so as well."""
    with running_without_a_snapshot(topic, tmp_path) as job:
        said = str(Explainer(JobView(job.plan, job._compiled, job._reports()), None).explain("seen by snapshot"))
        assert "and waits for the next snapshot\n" in said
        assert "leak" not in said
        job.stop()


def test_a_queue_that_is_waited_for_is_named() -> None:
    """A `QueueSource` waits for records; no thread is asked to call what only operators know."""
    flow = tw.Dataflow("queued")
    flow.source("clicks", tw.QueueSource()).probe("done")
    with tw.run(flow, engine="local") as job:
        settle(job)
        (holder,) = job.explain("done").holders
        assert holder.what.endswith(", and waits for records in its queue, or for its close()")
        job.stop()


def test_a_topic_that_is_waited_for_is_named() -> None:
    """`Dataflow.from_topic` waits for the other job."""
    flow = tw.Dataflow("reading")
    flow.from_topic("a topic of nobody", timeout_s=None).probe("done")
    with tw.run(flow, engine="local") as job:
        settle(job)
        (holder,) = job.explain("done").holders
        assert holder.what.endswith(", and waits for topic 'a topic of nobody'")
        job.stop()


def test_calls_that_are_waited_for_are_named() -> None:
    """`map_async` waits for its calls."""

    async def never(number: int) -> int:
        await asyncio.Event().wait()
        return number

    flow = tw.Dataflow("calling")
    flow.input("numbers", int).map_async(never).probe("done")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(1)
        settle(job)
        assert any(
            "and waits for results of calls that are under way" in one.what for one in job.explain("done").holders
        )
        job.stop()


def test_a_paced_source_names_its_probe() -> None:
    """It waits until its epochs are complete there."""
    flow = tw.Dataflow("paced")
    read = flow.source("numbers", tw.IterableSource([[(0, [1]), (1, [2])]]), paced_by="done")
    read.unary(partial(_keep, []), name="keep").probe("done")
    with tw.run(flow, engine="local") as job:
        settle(job)
        said = str(job.explain("done"))
        assert "and waits for probe 'done', at which 1 of its epochs are not complete" in said
        job.stop()


def _keep(kept: list[Any], context: tw.OperatorContext) -> Callable[..., None]:
    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            kept.append(lent.retain())

    return schedule
