"""`job.explain` and `job.statistics` on real Ray actors, also while one of them does not answer.

Explanations under both ways to spread progress are tested in `tests/unit/runtime/`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.waiting import eventually
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.shards import owner_of

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def build_hoarder(context: tw.OperatorContext) -> Any:
    """Build an operator that keeps a token for every message and forgets all about it."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        kept.extend(lent.retain() for lent, _ in input)

    return schedule


def test_a_leak_is_named() -> None:
    """With operator, time, workers and the way to the probe, as workers in other processes report it."""
    flow = tw.Dataflow("leaky")
    flow.input("numbers").exchange(lambda n: n).unary(build_hoarder, name="hoard").map(str).probe("done")
    job = tw.run(flow, workers=2, config=tw.RuntimeConfig(progress="accumulated"))
    with job:
        numbers = job.input("numbers")
        numbers.send(list(range(30)))
        numbers.advance_to(7)

        hoarded = "operator 'hoard' holds 2 tokens for time 0 on workers 0, 1, though its inputs have passed that time"
        assert eventually(lambda: hoarded in str(job.explain("done")))
        text = str(job.explain("done"))
        assert "reaches it at 0, by hoard > map (time unchanged)" in text
        assert "the token leaked" in text
        with pytest.raises(TimeoutError, match=r"job.explain\('done'\) says what holds it back"):
            job.probe("done").wait_until(1, timeout_s=0.1)
        job.stop()


def test_an_input_that_nobody_advanced_is_named() -> None:
    """The likeliest reason: the driver has not said that it is done with a time."""
    flow = tw.Dataflow("waiting")
    left, right = flow.input("left"), flow.input("right")
    left.concat(right).exchange(lambda n: n).map(str).probe("done")
    job = tw.run(flow, workers=2, config=tw.RuntimeConfig(progress="broadcast"))
    with job:
        job.input("left").close()
        job.input("right").send([1, 2, 3])
        assert eventually(lambda: [one.operator for one in job.explain("done").holders] == ["input right"])
        assert "job.input('right')" in str(job.explain("done"))
        job.input("right").close()
        job.wait(timeout_s=60)
        assert str(job.explain("done")) == "'done' is complete: nothing can arrive there any more"


@contextmanager
def a_gate(directory: Path) -> Iterator[Path]:
    """Give a file for which an operator waits; it is there in the end, however the test ends."""
    gate = directory / "open"
    try:
        yield gate
    finally:
        gate.touch()


def test_an_operator_that_does_not_return_is_named(tmp_path: Path) -> None:
    """Its worker cannot report; who asks is told so, with operator, time and for how long, and is not kept waiting."""
    with a_gate(tmp_path) as gate:

        def wait_for_gate(n: int) -> int:
            if n == 1:
                assert eventually(gate.exists, 60)
            return n

        flow = tw.Dataflow("blocked")
        flow.input("numbers").exchange(lambda n: n).map(wait_for_gate).probe("done").capture("results")
        job = tw.run(flow, workers=2)
        with job:
            job.input("numbers").advance_to(4)
            job.input("numbers").send([0, 1])
            job.input("numbers").close()
            assert eventually(lambda: bool(job.explain("done").busy))
            explanation = job.explain("done")
            [busy] = explanation.busy
            blocked = owner_of(1, 2)
            assert (busy.worker, busy.operator, busy.time) == (blocked, "exchange > map", 4)
            assert busy.seconds > 0
            assert "exchange > map" in str(explanation)
            statistics = job.statistics()
            assert ([worker.worker for worker in statistics.workers], statistics.silent) == ([1 - blocked], (blocked,))
            gate.touch()
            job.wait(timeout_s=60)
            assert str(job.explain("done")) == "'done' is complete: nothing can arrive there any more"
            assert sorted(n for entry in job.captured("results") for n in entry.batch) == [0, 1]


@pytest.mark.parametrize("progress", ["broadcast", pytest.param("accumulated", marks=pytest.mark.long)])
def test_statistics_add_up(progress: SpreadName) -> None:
    """Records, edges and messages, summed over both processes."""
    flow = tw.Dataflow("counting")
    flow.input("numbers").exchange(lambda n: n).map(abs).filter(lambda n: n % 2 == 0).capture("even").probe("done")
    job = tw.run(flow, workers=2, config=tw.RuntimeConfig(progress=progress))
    with job:
        for epoch in range(4):
            job.input("numbers").advance_to(epoch)
            job.input("numbers").send(list(range(30)))
        job.input("numbers").close()
        job.wait(timeout_s=60)
        statistics = job.statistics()
        map_, filter_ = statistics.operators["map"], statistics.operators["filter"]
        assert (map_.records_in, map_.records_out) == (120, 120)
        assert (filter_.records_in, filter_.records_out) == (120, 60)
        assert map_.seconds > 0
        [edge] = [edge for edge in statistics.edges if edge.source == "output 0 of 'input numbers'"]
        assert edge.records == 120
        assert [worker.worker for worker in statistics.workers] == [0, 1]
        assert all(worker.progress_messages > 0 for worker in statistics.workers)
