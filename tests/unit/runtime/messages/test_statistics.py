"""`Job.statistics`: counts against what was really sent, by operator, edge and worker."""

from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.operators.harness import KINDS, Kind
from tests.kit.runtime.busy_flow import busy_flow
from tests.kit.runtime.one_operator import DEADLINE_S, flow_of, ignore, scheduled, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread, hoarding, reading
from tidewheel.batches.batches import length
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.messages.envelope import Message
from tidewheel.runtime.messages.statistics import EdgeStatistics, OperatorStatistics
from tidewheel.runtime.messages.worker_report import BusyWorker
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.frames import pickled_size

every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def counted(one: OperatorStatistics) -> tuple[int, int, int, int]:
    return one.messages_in, one.records_in, one.messages_out, one.records_out


def volume(edge: EdgeStatistics) -> tuple[str, str, int, int]:
    return edge.source, edge.target, edge.messages, edge.records


@every_kind
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_operator_counts_what_it_takes_and_gives(kind: Kind, workers: int) -> None:
    """Every stage of a fused chain is counted by itself; a message to two readers is sent once; a sink sends none."""
    flow = tw.Dataflow("counting")
    passed = flow.input("numbers").map_batches(lambda batch: batch).filter(lambda record: kind.number(record) > 2)
    passed.unary(reading(lambda _: True), name="pass").capture("one")
    passed.capture("two")
    with deploy(flow, workers) as job:
        for numbers in ([1, 2, 3, 4], [0], [5, 6], []):
            job.input("numbers").send(kind.make(numbers))
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        statistics = job.statistics()
    assert {name: counted(one) for name, one in statistics.operators.items()} == {
        "input numbers": (0, 0, 3, 7),
        "map_batches": (3, 7, 3, 7),
        "filter": (3, 7, 2, 4),
        "pass": (2, 4, 2, 4),
        "capture one": (2, 4, 0, 0),
        "capture two": (2, 4, 0, 0),
    }
    assert list(map(volume, statistics.edges)) == [
        ("output 0 of 'input numbers'", "input 0 of 'map_batches'", 3, 7),
        ("output 0 of 'filter'", "input 0 of 'pass'", 2, 4),
        ("output 0 of 'pass'", "input 0 of 'capture one'", 2, 4),
        ("output 0 of 'filter'", "input 0 of 'capture two'", 2, 4),
    ]
    assert [worker.worker for worker in statistics.workers] == list(range(workers))
    assert statistics.silent == ()


@every_kind
def test_an_exchange_counts_the_parts(kind: Kind) -> None:
    """On an edge with an exchange each part of a batch is a message; together they have all its records."""
    key: Any = kind.number if kind.name in {"list", "array"} else "n"
    flow = tw.Dataflow("parts")
    flow.input("numbers").exchange(key).capture("results")
    batches = [kind.make(list(range(start, start + 20))) for start in range(0, 60, 20)]
    with deploy(flow, 3) as job:
        for batch in batches:
            job.input("numbers").send(batch)
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        statistics, results = job.statistics(), job.captured("results")
    first, second = statistics.edges
    assert (first.messages, first.records) == (len(results), 60)
    assert sum(length(result.batch) for result in results) == 60
    assert counted(statistics.operators["exchange"]) == (len(results), 60, len(results), 60)
    assert second.messages == len(results) > 3
    if kind.name != "list":
        assert second.bytes == sum(int(result.batch.nbytes) for result in results)


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (np.zeros((10, 4)), 320),
        (np.arange(1000, dtype=np.int64)[::10], 800),
        (pa.table({"n": pa.array(range(100), pa.int64())}), 800),
        (pa.table({"n": pa.array(range(100), pa.int64())}).slice(90), 80),
    ],
    ids=["matrix", "view", "table", "slice"],
)
def test_the_bytes_of_arrow_and_numpy_are_those_of_the_records(batch: Any, size: int) -> None:
    """Not those of a larger buffer that the batch is a part of."""
    flow = tw.Dataflow("bytes")
    flow.input("numbers").capture("results")
    with deploy(flow, 1) as job:
        job.input("numbers").send(batch)
        settle(job)
        [edge] = job.statistics().edges
        assert edge.bytes == size
        job.stop()


def test_the_bytes_of_a_list_grow_with_its_records() -> None:
    """They are estimated by some records: enough to tell a large list from a small one."""
    sizes = []
    for batch in (["a"], ["a" * 1000], [f"{number:01000}" for number in range(1000)]):
        flow = tw.Dataflow("bytes")
        flow.input("texts").capture("results")
        with deploy(flow, 1) as job:
            job.input("texts").send(batch)
            settle(job)
            sizes.append(job.statistics().edges[0].bytes)
            job.stop()
    assert 0 < sizes[0] < 200
    assert 1000 < sizes[1] < 1300
    assert 1_000_000 < sizes[2] < 1_300_000


def test_records_that_go_round_a_loop_count_each_time() -> None:
    """Five rounds of one record are five messages in, and as many out but the last."""
    flow = tw.Dataflow("rounds")
    flow.input("numbers").iterate(
        lambda s: (s.map(lambda n: n - 1).filter(lambda n: n > 0), s.filter(lambda n: n == 1)), name="ring"
    ).capture("results")
    with deploy(flow, 1) as job:
        job.input("numbers").send([5])
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        found = job.statistics().operators
    assert counted(found["ring/map"]) == (5, 5, 5, 5)
    assert counted(found["ring/filter"]) == (5, 5, 4, 4)
    assert counted(found["ring/feedback"]) == (4, 4, 4, 4)
    assert counted(found["ring/concat"]) == (5, 5, 5, 5)
    assert counted(found["leave"]) == (1, 1, 1, 1)


def test_the_frontier_of_each_operator() -> None:
    """At its inputs, at an operator without inputs at its outputs; in a loop with rounds; empty where it has ended."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("frontiers")
    early = flow.input("early").unary(hoarding(kept), name="leaky")
    looped = early.iterate(lambda s: (s.filter(lambda n: False), s), name="ring")
    looped.concat(flow.input("late").map(str)).capture("results")
    with deploy(flow, 2) as job:
        job.input("early").send([1])
        job.input("early").advance_to(2)
        job.input("late").close()
        settle(job)
        found = {name: one.frontier for name, one in job.statistics().operators.items()}
        assert found == {
            "input early": (2,),
            "leaky": (2,),
            "ring/feedback": ((0, 0),),
            "ring/enter": (0,),
            "ring/concat": ((0, 0),),
            "ring/filter": ((0, 0),),
            "leave": ((0, 0),),
            "input late": (),
            "map": (),
            "concat": (0,),
            "capture results": (0,),
        }
        kept.pop().discard()
        job.stop()


@every_spread
def test_what_workers_tell_each_other(progress: SpreadName) -> None:
    """Messages, changes and bytes of progress are those that were in the envelopes; alone, a worker tells nobody."""
    job = deploy(busy_flow(), 3, progress)
    sent: list[list[Any]] = [[] for _ in job._cores]
    for worker, core in enumerate(job._cores):
        step = core.step

        def note(worker: int = worker, step: Any = step) -> Any:
            envelopes = step()
            sent[worker] += [envelope.progress for _, envelope in envelopes if envelope.progress]
            return envelopes

        core.step = note  # type: ignore[method-assign]
    with job:
        for number in range(8):
            job.input("numbers").send([number, number + 7])
            job.input("numbers").advance_to(number + 1)
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        for one, batches in zip(job.statistics().workers, sent, strict=True):
            assert one.progress_messages == len(batches) > 0
            assert one.progress_changes == sum(map(len, batches))
            assert one.progress_bytes == pytest.approx(sum(map(pickled_size, batches)), rel=0.3)
    with deploy(busy_flow(), 1, progress) as alone:
        alone.input("numbers").close()
        alone.wait(DEADLINE_S)
        [one] = alone.statistics().workers
        assert (one.progress_messages, one.progress_changes, one.progress_bytes) == (0, 0, 0)


@every_spread
def test_sums_over_workers_are_what_the_workers_did(progress: SpreadName) -> None:
    """Operators and edges of the job add up those of its workers, and what leaves over an edge arrives."""
    with deploy(busy_flow(), 3, progress) as job:
        for number in range(12):
            job.input("numbers").send([number, 5 * number])
            job.input("numbers").advance_to(number)
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        statistics = job.statistics()
    for name, one in statistics.operators.items():
        parts = [worker.operators[name] for worker in statistics.workers]
        assert counted(one) == tuple(map(sum, zip(*map(counted, parts), strict=True)))
        assert one.schedules == sum(part.schedules for part in parts) > 0
        assert one.seconds == pytest.approx(sum(part.seconds for part in parts))
        assert one.frontier == ()
    for number, edge in enumerate(statistics.edges):
        parts_of_edge = [worker.edges[number] for worker in statistics.workers]
        assert edge.records == sum(part.records for part in parts_of_edge)
        assert edge.bytes == sum(part.bytes for part in parts_of_edge)
    into_count = [edge for edge in statistics.edges if edge.target == "input 0 of 'count'"]
    assert sum(edge.records for edge in into_count) == statistics.operators["count"].records_in == 48
    assert all(worker.steps > 0 for worker in statistics.workers)


def test_leaks_are_counted_by_worker() -> None:
    """A token that was dropped without being discarded shows with the worker that had it."""

    def forget(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            kept[:] = [lent.retain()]

    kept: list[tw.TimestampToken] = []
    config = tw.RuntimeConfig(on_leak="warn")
    with tw.run(flow_of(scheduled(forget), "forgetful"), engine="local", config=config) as job:
        for time in range(4):
            job.input("numbers").advance_to(time)
            job.input("numbers").send([time])
            settle(job)
        assert [worker.leaks for worker in job.statistics().workers] == [3]
        kept.clear()
        job.stop()


def test_seconds_are_those_of_the_functions() -> None:
    """By a clock that ticks once each time it is looked at, all stages of a chain and all operators take some time."""
    flow = tw.Dataflow("clock")
    flow.input("numbers").map(abs).filter(bool).unary(scheduled(ignore), name="ignore").capture("results")
    ticks = count()
    core = WorkerCore(description_of(flow).plan(), 0, 1, clock=lambda: float(next(ticks)))
    core.step()
    before = dict(core.report().statistics.operators)
    core._instances[0].outputs[0].channels[0].put(Message(0, 0, [1, 2]))
    core.activate(1)
    core.step()
    after = core.report().statistics.operators
    assert after["map"].seconds == after["filter"].seconds == 1.0
    assert before["map"].seconds == before["filter"].seconds == 0.0
    assert after["ignore"].seconds > before["ignore"].seconds > 0.0


def test_local_jobs_measure_time() -> None:
    """The local engine has a clock, so the longest operator shows."""
    flow = tw.Dataflow("busy")
    flow.input("numbers").map(lambda n: sum(range(n))).map(str).capture("results")
    with deploy(flow, 1) as job:
        job.input("numbers").send([200_000])
        settle(job)
        found = job.statistics().operators
        job.stop()
    assert found["map"].seconds > found["map-2"].seconds > 0.0


def test_printed_it_is_four_tables() -> None:
    """Operators, edges, inputs and workers, in columns that line up; what has ended says so."""
    flow = tw.Dataflow("tables")
    flow.input("numbers").map(str).exchange(bool).capture("results")
    with deploy(flow, 2) as job:
        job.input("numbers").send([1, 2, 3])
        job.input("numbers").advance_to(7)
        settle(job)
        operators, edges, inputs, workers = str(job.statistics()).split("\n\n")
        job.input("numbers").close()
        settle(job)
        ended = str(job.statistics())
    lines = operators.splitlines()
    assert " ".join(lines[0].split()) == "operator schedules seconds records in records out frontier"
    assert [line.split()[-1] for line in lines[1:]] == ["7"] * 4
    assert len({len(line) for line in lines}) == 1
    assert lines[2].split()[0] == "map"
    assert lines[2].split()[3:] == ["3", "3", "7"]
    assert edges.splitlines()[1].startswith("output 0 of 'input numbers' -> input 0 of 'map'  ")
    assert inputs.splitlines()[1].split()[:3] == ["numbers", "1", "3"]
    assert [line.split()[0] for line in workers.splitlines()] == ["worker", "0", "1"]
    assert ended.count("ended") == 4


def test_a_job_none_of_whose_workers_answers_has_no_figures() -> None:
    """That prints as well, and says who is busy."""
    job = deploy(flow_of(scheduled(ignore)), 2)
    assert isinstance(job, LocalJob)
    with job:
        busy = [BusyWorker(worker) for worker in range(2)]
        statistics = JobView(job.plan, job._compiled, busy).statistics()
        job.stop()
    assert (statistics.operators, statistics.edges, statistics.silent) == ({}, (), (0, 1))
    assert str(statistics).count("busy in an operator, did not answer") == 2
    assert repr(statistics) == str(statistics), "a notebook that ends a cell with them shows the tables"


class Unmeasurable:
    """A record whose class says wrongly, or slowly, how large it is."""

    def __sizeof__(self) -> int:
        raise ValueError("no size")


def test_records_are_not_asked_for_their_size() -> None:
    """What a class's own __sizeof__ does may take long or fail, which is nothing to a job."""
    flow = tw.Dataflow("sizes")
    flow.input("things").map(lambda thing: thing).capture("things")
    with tw.run(flow, engine="local") as job:
        job.input("things").send([Unmeasurable()])
        job.input("things").close()
        job.wait()
        assert all(edge.bytes > 0 for edge in job.statistics().edges)
