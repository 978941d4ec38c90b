"""Streaming queries of a Spark on Ray that feed jobs on both engines."""

import gc
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import ray

import tidewheel as tw
from tests.spark.micro_batches import add_file, reading
from tests.waiting import eventually
from tidewheel.progress import UnitDomain
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.spark_bridge import BridgeError, feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEADLINE_S = 60.0
STOPS_WITHIN_S = 10.0
ALL = {"availableNow": True}


@pytest.fixture(scope="module", autouse=True)
def quiet(spark: "SparkSession") -> Iterator[None]:
    """Spark writes what fails a query to the console as well, and these tests make some fail."""
    yield
    assert not spark.streams.active, "each test ends its queries"


@pytest.fixture(autouse=True)
def nothing_cached(spark: "SparkSession") -> Iterator[None]:
    """What a micro-batch had of itself in Spark's cache is gone, also of one that was broken off."""
    context: Any = spark.sparkContext._jsc
    before = set(context.getPersistentRDDs())
    yield
    assert eventually(lambda: set(context.getPersistentRDDs()) <= before, STOPS_WITHIN_S)


def flow_of(name: str = "fed") -> tw.Dataflow:
    flow = tw.Dataflow(name)
    flow.input("rows").capture("rows").probe("done")
    return flow


@contextmanager
def running(flow: tw.Dataflow, engine: Any = "ray", **options: Any) -> Iterator[tw.types.Job]:
    """Run a job that is going to fail: leaving the block does not raise that once more."""
    job = tw.run(flow, engine=engine, **options)
    try:
        yield job
    finally:
        job.stop()


def captured(job: tw.types.Job) -> list[tuple[int, list[int]]]:
    return sorted((one.time, one.batch["n"].to_pylist()) for one in job.captured("rows"))


@pytest.mark.parametrize("engine", ["ray", "local"])
def test_micro_batches_are_epochs(spark: "SparkSession", tmp_path: Path, engine: Any) -> None:
    """Each has its id as its time, and nothing is left out or repeated; then a new job goes on where Spark is."""
    for number in range(3):
        add_file(tmp_path / "in", number, [number * 10, number * 10 + 1])
    rows = reading(spark, tmp_path / "in")
    with tw.run(flow_of(), workers=2, engine=engine) as job:
        feeding = feed(job.input("rows"), rows, checkpoint=tmp_path / "check", trigger=ALL, query_name="first")
        assert feeding.query.name == "first"
        feeding.wait(DEADLINE_S)
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [0, 1]), (1, [10, 11]), (2, [20, 21])]
    add_file(tmp_path / "in", 3, [30])
    with tw.run(flow_of(), workers=2, engine=engine) as job:
        probe = job.probe("done")
        with feed(job.input("rows"), rows, checkpoint=tmp_path / "check", trigger=ALL, commit_after=probe) as feeding:
            feeding.wait(DEADLINE_S)
        job.wait(DEADLINE_S)
        assert captured(job) == [(3, [30])]
        assert sorted(entry.name for entry in (tmp_path / "check" / "commits").glob("[0-9]")) == ["0", "1", "2", "3"]


def test_a_query_waits_for_more(spark: "SparkSession", tmp_path: Path) -> None:
    """Frontiers move when a micro-batch has come, not when the query ends; stopping it closes the input."""
    with tw.run(flow_of()) as job:
        with feed(job.input("rows"), reading(spark, tmp_path / "in"), checkpoint=tmp_path / "check"):
            for number in range(3):
                add_file(tmp_path / "in", number, [number])
                job.probe("done").wait_until(number + 1, DEADLINE_S)
        assert job.input("rows").is_closed
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [0]), (1, [1]), (2, [2])]


def test_rows_of_many_types_and_partitions(spark: "SparkSession", tmp_path: Path) -> None:
    """What Spark computes of its input arrives, an aggregation too, whose micro-batches tell what has changed."""
    for number in range(2):
        add_file(tmp_path / "in", number, range(number * 100, number * 100 + 100))
    rows = reading(spark, tmp_path / "in")
    sums = rows.groupBy((rows.n % 3).cast("string").alias("key")).sum("n").withColumnRenamed("sum(n)", "n")
    flow = tw.Dataflow("sums")
    flow.input("sums").capture("sums")
    with tw.run(flow, engine="local") as job:
        feed(job.input("sums"), sums, checkpoint=tmp_path / "check", trigger=ALL, output_mode="update").wait(DEADLINE_S)
        job.wait(DEADLINE_S)
        found = {(one.time, row["key"]): row["n"] for one in job.captured("sums") for row in one.batch.to_pylist()}
    assert found == {
        (epoch, str(key)): sum(n for n in range(epoch * 100 + 100) if n % 3 == key)
        for epoch in range(2)
        for key in range(3)
    }


def test_a_query_that_fails_fails_the_job(spark: "SparkSession", tmp_path: Path) -> None:
    """Nothing of that micro-batch is delivered; the error has Spark's reason, without Java's stack, and what to do."""
    add_file(tmp_path / "in", 0, [1])
    add_file(tmp_path / "in", 1, [*range(2, 1000), 0])
    rows = reading(spark, tmp_path / "in").selectExpr("if(n = 0, raise_error('no zero'), n) as n")
    with running(flow_of()) as job:
        feeding = feed(job.input("rows"), rows, checkpoint=tmp_path / "check")
        with pytest.raises(tw.JobError) as raised:
            job.wait(DEADLINE_S)
    text = str(raised.value)
    assert "input 'rows' cannot be fed any more: the query that feeds it has failed in micro-batch 1: " in text
    assert "no zero" in text
    assert "Nothing of it was sent: when that is mended, start the program again with the same checkpoint" in text
    assert "\tat " not in text
    assert job.input("rows").time == 1
    assert not feeding.query.isActive
    with pytest.raises(tw.JobError, match="no zero"):
        feeding.wait(DEADLINE_S)


@pytest.mark.parametrize("engine", ["ray", "local"])
def test_a_job_that_fails_stops_an_idle_query(spark: "SparkSession", tmp_path: Path, engine: Any) -> None:
    """Within seconds, though no micro-batch comes that could notice; whoever waits for the query gets the reason."""
    flow = flow_of()
    flow.input("numbers").map(lambda number: 1 // number).probe("mapped")
    with running(flow, engine) as job:
        feeding = feed(job.input("rows"), reading(spark, tmp_path / "in"), checkpoint=tmp_path / "check")
        job.input("numbers").send([0])
        with pytest.raises(tw.JobError, match="ZeroDivisionError"):
            job.probe("mapped").wait_until(1, DEADLINE_S)
        assert eventually(lambda: not feeding.query.isActive, STOPS_WITHIN_S)
        with pytest.raises(tw.JobError, match="ZeroDivisionError"):
            feeding.wait(DEADLINE_S)


def test_a_job_that_is_left_stops_the_query(spark: "SparkSession", tmp_path: Path) -> None:
    """Nothing runs on that nobody gets to see."""
    with tw.run(flow_of(), engine="local") as job:
        feeding = feed(job.input("rows"), reading(spark, tmp_path / "in"), checkpoint=tmp_path / "check")
        assert feeding.query.isActive
        job.stop()
    assert eventually(lambda: not feeding.query.isActive, STOPS_WITHIN_S)


def test_back_pressure_reaches_spark(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an operator is busy Spark does not go on; if the job fails meanwhile, nothing hangs."""
    files, let_go, waits = 12, tmp_path / "go", threading.Event()

    def busy(rows: Any) -> Any:
        assert eventually(let_go.exists, DEADLINE_S)
        return rows

    for number in range(files):
        add_file(tmp_path / "in", number, range(number, number + 1000))
    flow = tw.Dataflow("busy")
    flow.input("rows").map_batches(busy).probe("done")
    with tw.run(flow, config=tw.RuntimeConfig(bytes_in_flight=20_000)) as job:
        wait = job._feed.wait

        def wait_and_say(condition: Any, timeout_s: float | None) -> Any:
            if not condition():
                waits.set()
            return wait(condition, timeout_s)

        monkeypatch.setattr(job._feed, "wait", wait_and_say)
        rows = reading(spark, tmp_path / "in")
        feeding = feed(job.input("rows"), rows, checkpoint=tmp_path / "check", trigger=ALL)
        assert waits.wait(DEADLINE_S)
        assert job.input("rows").time >= 2
        assert not eventually(lambda: job.input("rows").time > 6, 2.0)
        assert feeding.query.isActive
        let_go.touch()
        feeding.wait(DEADLINE_S)
        job.wait(DEADLINE_S)
        assert job.input("rows").time == files
        assert job.statistics().inputs["rows"].seconds_waited > 1.0


def test_a_job_fails_while_spark_waits_for_it(spark: "SparkSession", tmp_path: Path) -> None:
    """The query, whose micro-batch cannot be delivered any more, ends with the job's error."""
    for number in range(3):
        add_file(tmp_path / "in", number, [number])
    flow = flow_of()
    # The probe is held back by the other input, so that no micro-batch is ever done.
    flow.input("numbers").map(lambda number: 1 // number).concat(flow.input("never")).probe("held")
    with running(flow) as job:
        rows = reading(spark, tmp_path / "in")
        feeding = feed(job.input("rows"), rows, checkpoint=tmp_path / "check", commit_after=job.probe("held"))
        assert eventually(lambda: job.input("rows").time == 1, DEADLINE_S)
        job.input("numbers").send([0])
        with pytest.raises(tw.JobError, match="ZeroDivisionError"):
            feeding.wait(STOPS_WITHIN_S)
    assert not list((tmp_path / "check" / "commits").glob("[0-9]")), "Spark has committed what was not done"


def test_what_is_wrong_is_said_at_once(spark: "SparkSession", tmp_path: Path) -> None:
    """Before a query is started; and the message says what to do."""
    rows, check = reading(spark, tmp_path / "in"), tmp_path / "check"
    later = rows.selectExpr("n", "make_interval(1) as span")
    other: Any = [1, 2]
    units = tw.Dataflow("units", UnitDomain())
    units.input("rows").probe("done")
    with tw.run(flow_of(), engine="local") as job, tw.run(units, engine="local") as unit_job:
        input = job.input("rows")
        refused: dict[str, Callable[[], object]] = {
            "is not streaming. Read it with spark.readStream, or make it a source of the dataflow with from_spark": (
                lambda: feed(input, spark.range(3), checkpoint=check)
            ),
            r"the source of input 'rows' is a builtins\.list, not a streaming DataFrame": (
                lambda: feed(input, other, checkpoint=check)
            ),
            r"columns that Arrow cannot hold: span \(interval\)": lambda: feed(input, later, checkpoint=check),
            r"feed\(\) takes an input of a running job, job.input\(name\), not \[1, 2\]": (
                lambda: feed(other, rows, checkpoint=check)
            ),
            "takes a directory as checkpoint=, not None: without one": (
                lambda: feed(input, rows, checkpoint=None)  # type: ignore[arg-type]
            ),
            "is no mapping with one of availableNow, once, processingTime": (
                lambda: feed(input, rows, checkpoint=check, trigger={"continuous": "1 second"})
            ),
            "commit_after is a probe or topic of the job": (
                lambda: feed(input, rows, checkpoint=check, commit_after="done")  # type: ignore[arg-type]
            ),
            "ids of micro-batches are integers": lambda: feed(unit_job.input("rows"), rows, checkpoint=check),
        }
        for message, call in refused.items():
            with pytest.raises(BridgeError, match=message):
                call()
        feeding = feed(input, rows, checkpoint=check)
        with pytest.raises(BridgeError, match=r"is fed by a query already: clone\(\) a handle beforehand"):
            feed(input, rows, checkpoint=tmp_path / "other")
        feeding.stop()
        with pytest.raises(BridgeError, match="input 'rows' is closed"):
            feed(input, rows, checkpoint=check)
        unit_job.stop()
    with tw.run(flow_of(), engine="local") as job:
        job.input("rows").advance_to(3)
        with pytest.raises(BridgeError, match="is at time 3 already, and micro-batches with lower ids would be taken"):
            feed(job.input("rows"), rows, checkpoint=check)
        job.stop()


@pytest.mark.long
def test_nothing_is_kept_of_micro_batches(spark: "SparkSession", tmp_path: Path) -> None:
    """After 50 of them Spark has cached nothing, and this process holds no more of Java's and Ray's objects.

    What memory the processes take over 1,000 is for ``benchmarks/spark/spark_memory.py``.
    """
    context: Any = spark.sparkContext._jsc
    gateway: Any = spark.sparkContext._gateway
    worker: Any = ray._private.worker.global_worker

    def kept() -> dict[str, int]:
        gc.collect()
        return {
            "cached by Spark": len(context.getPersistentRDDs()),
            "Java objects that Python knows": gateway.java_gateway_server.getGateway().getBindings().size(),
            "Ray objects": len(worker.core_worker.get_all_reference_counts()),
        }

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
    flow = tw.Dataflow("many")
    flow.input("rows").probe("done")
    with (
        tw.run(flow) as job,
        feed(job.input("rows"), rows, checkpoint=tmp_path / "check"),
    ):
        job.probe("done").wait_until(5, DEADLINE_S)
        before = kept()
        job.probe("done").wait_until(55, DEADLINE_S)
        assert eventually(lambda: all(now <= before[name] + 10 for name, now in kept().items())), (before, kept())


def added(total: int, number: int) -> tuple[int, tuple[int, int]]:
    return total + number, (number % 3, total + number)


def summing() -> tw.Dataflow:
    flow = tw.Dataflow("sums")
    numbers = flow.input("rows").map_batches(lambda batch: batch["n"].to_pylist())
    numbers.stateful_map(lambda n: n % 3, start=int, step=added, name="sums").capture("sums").probe("done")
    return flow


def sums_of(batches: list[list[int]]) -> Counter[tuple[int, tuple[int, int]]]:
    totals: Counter[int] = Counter()
    found: Counter[tuple[int, tuple[int, int]]] = Counter()
    for time, batch in enumerate(batches):
        for number in batch:
            totals[number % 3] += number
            found[time, (number % 3, totals[number % 3])] += 1
    return found


def test_a_job_with_snapshots_goes_on_with_what_these_lack(spark: "SparkSession", tmp_path: Path) -> None:
    """Where a worker dies, and where the program is started again; state has each row of each micro-batch once."""
    batches = [[number, number + 1, 7 * number] for number in range(6)]
    rows = reading(spark, tmp_path / "in")
    for number in range(3):
        add_file(tmp_path / "in", number, batches[number])
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=1000)
    with running(summing(), workers=2, snapshots=snapshots) as job:
        assert isinstance(job, RayJob)
        feeding = feed(job.input("rows"), rows, checkpoint=tmp_path / "check")
        job.probe("done").wait_until(2, DEADLINE_S)
        os.kill(job.pids[0], signal.SIGKILL)
        add_file(tmp_path / "in", 3, batches[3])
        add_file(tmp_path / "in", 4, batches[4])
        job.probe("done").wait_until(4, DEADLINE_S)
        job.stop()
        assert eventually(lambda: not feeding.query.isActive, DEADLINE_S)
    add_file(tmp_path / "in", 5, batches[5])
    with tw.run(summing(), workers=2, snapshots=snapshots) as job:
        assert job.input("rows").time >= 3
        feeding = feed(job.input("rows"), rows, checkpoint=tmp_path / "check", trigger=ALL)
        feeding.wait(DEADLINE_S)
        job.wait(DEADLINE_S)
        found = Counter((one.time, record) for one in job.captured("sums") for record in one.batch)
    assert found == sums_of(batches)


def test_a_micro_batch_that_spark_replays_is_published_once(spark: "SparkSession", tmp_path: Path) -> None:
    """The job ends when the log has a micro-batch that Spark has not committed. `test_feed_kills.py` kills programs."""
    for number in range(3):
        add_file(tmp_path / "in", number, [number * 10, number * 10 + 1])
    rows = reading(spark, tmp_path / "in")
    flow = tw.Dataflow("replayed")
    numbers = flow.input("rows").flat_map(lambda row: [row["n"]])
    numbers.publish("replayed", log=tw.Log(tmp_path / "log"))
    numbers.concat(flow.input("never")).probe("held")
    with running(flow) as job:
        feed(job.input("rows"), rows, checkpoint=tmp_path / "check", commit_after=job.probe("held"))
        job.topic("replayed").wait_until(1, DEADLINE_S)
    assert eventually(lambda: not spark.streams.active, DEADLINE_S)
    assert [file.name for file in (tmp_path / "check" / "offsets").glob("[0-9]")] == ["0"]
    assert not list((tmp_path / "check" / "commits").glob("[0-9]"))
    with running(flow) as job, tw.subscribe("replayed", durable=tw.Durable("audit"), start="earliest") as subscription:
        job.input("never").close()
        feeding = feed(job.input("rows"), rows, checkpoint=tmp_path / "check", trigger=ALL)
        feeding.wait(DEADLINE_S)
        found = [(epoch.time, sorted(epoch.records)) for epoch in subscription.epochs(timeout_s=DEADLINE_S)]
        job.wait(DEADLINE_S)
    assert found == [(0, [0, 1]), (1, [10, 11]), (2, [20, 21])]
