"""Topics on Ray as folders of Parquet files that Spark reads live: each row once, whoever is killed."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import tidewheel as tw
from tests.kit.seeds import seed_of
from tests.ray.leftovers import own_traces
from tests.waiting import eventually
from tidewheel.spark_bridge import BridgeError, write_epochs
from tidewheel.spark_bridge.spark_types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("ray_cluster")]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
KILLS = int(os.environ.get("TIDEWHEEL_KILLS") or 2)
DEADLINE_S = 90.0
SAY = f"repeat with TIDEWHEEL_KILLS={KILLS} TIDEWHEEL_KILLS_SEED={SEED}"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@contextmanager
def publishing(topic: str, log: Path) -> Iterator[Any]:
    """A job of two workers that publishes its input, each worker what is sent to it, in one order."""
    flow = tw.Dataflow(f"publishes {topic}")
    flow.input("rows").publish(topic, log=tw.Log(log))
    with tw.run(flow, workers=2) as job:
        yield job
        job.stop()


def rows(epoch: int) -> list[int]:
    """What an epoch has: none, one, or some."""
    return [epoch * 1000 + n for n in range(epoch % 7)]


def send(handle: Any, epochs: range) -> None:
    """Send epochs of one batch for each worker."""
    for epoch in epochs:
        numbers = rows(epoch)
        for part in (numbers[::2], numbers[1::2]):
            handle.send(pa.table({"n": pa.array(part, pa.int64())}))
        handle.advance_to(epoch + 1)


def expected(epochs: range) -> list[tuple[int, int]]:
    return [(epoch, n) for epoch in epochs for n in rows(epoch)]


def files(path: Path) -> list[Path]:
    return sorted(file for file in path.glob("*") if not file.name.startswith((".", "_")))


def content(path: Path) -> list[tuple[int, int]]:
    """Return the rows that are there; every epoch has to be in one file, and nothing unfinished be left."""
    read = [parquet.read_table(file).to_pylist() for file in files(path)]
    times = [time for part in read for time in {row["epoch"] for row in part}]
    assert len(times) == len(set(times))
    assert not list(path.glob(".*"))
    return sorted((row["epoch"], row["n"]) for part in read for row in part)


class Writing:
    """A writer in a process of its own, that of an actor, which can be killed."""

    def __init__(self, topic: str, folder: Path) -> None:
        import ray

        class Process:
            def pid(self) -> int:
                """Return what to kill."""
                return os.getpid()

            def write(self, topic: str, path: Path, checkpoint: Path) -> None:
                options: dict[str, Any] = {"time": "epoch", "max_delay_s": 0.02, "timeout_s": DEADLINE_S}
                with write_epochs(topic, path, checkpoint=checkpoint, **options) as writer:
                    writer.wait(DEADLINE_S)

        actor: Any = ray.remote(Process).options(num_cpus=0).remote()
        self._pid: int = ray.get(actor.pid.remote(), timeout=DEADLINE_S)
        self._written = actor.write.remote(topic, folder / "epochs", folder / "state")

    def kill(self) -> None:
        import ray

        os.kill(self._pid, signal.SIGKILL)
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(self._written, timeout=DEADLINE_S)

    def wait(self) -> None:
        """Wait until it has written all."""
        import ray

        ray.get(self._written, timeout=DEADLINE_S)


class Sending(threading.Thread):
    """Sends epoch after epoch, until it is told to stop."""

    def __init__(self, handle: Any) -> None:
        super().__init__()
        self._handle = handle
        self._stop_it = threading.Event()

    def run(self) -> None:
        while not self._stop_it.wait(0.01):
            send(self._handle, range(self._handle.time, self._handle.time + 1))

    def stop(self) -> None:
        self._stop_it.set()
        self.join(DEADLINE_S)


@pytest.mark.long
def test_a_writer_that_is_killed_again_and_again(topic: str, tmp_path: Path) -> None:
    """Every row once, though the writer dies at random moments, and the job ends in between and starts again."""
    choices, path, count = random.Random(SEED), tmp_path / "epochs", 0
    with ExitStack() as stack:
        for is_last in (False, True):
            with publishing(topic, tmp_path / "log") as job:
                handle = job.input("rows")
                send(handle, range(count))  # known to the log, if it is not the first time
                sending = Sending(handle)
                sending.start()
                stack.callback(sending.stop)
                for _ in range(KILLS):
                    writing, there = Writing(topic, tmp_path), len(files(path))
                    # The first file of a writer comes while it catches up, in the middle of many others.
                    assert eventually(lambda n=there: len(files(path)) > n, DEADLINE_S), SAY  # type: ignore[misc]
                    threading.Event().wait(choices.random() * 0.2)
                    writing.kill()
                sending.stop()
                count = handle.time
                if is_last:
                    writing = Writing(topic, tmp_path)
                    handle.close()
                    writing.wait()
                    job.wait(timeout_s=DEADLINE_S)
    assert content(path) == expected(range(count)), SAY


def test_spark_reads_the_folder_live(topic: str, tmp_path: Path, spark: "SparkSession") -> None:
    """A streaming query has each row once, over a writer that goes and one that goes on, and whole epochs."""
    from pyspark.sql import DataFrame

    seen: list[tuple[int, int]] = []
    batches: list[set[int]] = []

    def take(frame: DataFrame, _: int) -> None:
        found = [(row["epoch"], row["n"]) for row in frame.collect()]
        batches.append({epoch for epoch, _ in found})
        seen.extend(found)

    path = tmp_path / "epochs"
    path.mkdir()
    stream = spark.readStream.schema("n long, epoch long").parquet(str(path))
    query = stream.writeStream.option("checkpointLocation", str(tmp_path / "query")).foreachBatch(take).start()
    options: dict[str, Any] = {"checkpoint": tmp_path / "state", "time": "epoch", "max_delay_s": 0.05}
    try:
        with publishing(topic, tmp_path / "log") as job:
            for epochs in (range(20), range(20, 40)):
                with write_epochs(topic, path, **options) as writer:
                    send(job.input("rows"), epochs)
                    count = len(expected(range(epochs.stop)))
                    assert eventually(lambda: len(seen) >= count, DEADLINE_S), query.exception()  # noqa: B023
                    if epochs.stop == 40:
                        job.input("rows").close()
                        writer.wait(DEADLINE_S)
            job.wait(timeout_s=DEADLINE_S)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(seen) == expected(range(40)) == content(path)
    assert sum(map(len, batches)) == len(set().union(*batches)), "an epoch was seen in two parts"


def test_spark_reads_every_type(topic: str, tmp_path: Path, spark: "SparkSession") -> None:
    """What Spark has for each Arrow type in to_spark, it reads from the files."""
    noon = datetime(2024, 2, 29, 12, tzinfo=UTC)
    values: dict[str, tuple[pa.DataType, Any]] = {
        "flag": (pa.bool_(), True),
        "byte": (pa.int8(), 1),
        "unsigned": (pa.uint64(), 2**63),
        "text": (pa.large_string(), "é"),
        "raw": (pa.binary(), b"\0"),
        "exact": (pa.decimal128(10, 2), Decimal("1.50")),
        "day": (pa.date32(), noon.date()),
        "moment": (pa.timestamp("ns", "UTC"), noon),
        "local": (pa.timestamp("ms"), noon.replace(tzinfo=None)),
        "took": (pa.duration("ms"), timedelta(seconds=1.5)),
        "list": (pa.list_(pa.int32()), [1, None]),
        "struct": (pa.struct({"a": pa.string()}), {"a": "b"}),
        "map": (pa.map_(pa.string(), pa.float64()), [("k", 1.5)]),
    }
    row = {name: value for name, (_, value) in values.items()}
    table = pa.Table.from_pylist([row], schema=pa.schema({name: kind for name, (kind, _) in values.items()}))
    path = tmp_path / "epochs"
    with publishing(topic, tmp_path / "log") as job, write_epochs(topic, path, checkpoint=tmp_path / "state") as writer:
        job.input("rows").send(table)
        job.input("rows").close()
        writer.wait(DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)
    assert writer.schema is not None
    (read,) = spark.read.schema(spark_schema(writer.schema)).parquet(str(path)).collect()
    found = read.asDict(recursive=True)
    assert found.pop("moment").astimezone(UTC) == row.pop("moment")
    assert found == row | {"map": {"k": 1.5}}


def test_how_a_writer_ends(topic: str, tmp_path: Path) -> None:
    """Closed, it has written what was whole; with an error, it raises it; and it leaves no thread and no file open."""
    before = own_traces()
    with publishing(topic, tmp_path / "log") as job:
        options: dict[str, Any] = {"checkpoint": tmp_path / "state", "time": "epoch", "max_delay_s": 3600.0}
        writer = write_epochs(topic, tmp_path / "epochs", **options)
        send(job.input("rows"), range(10))
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.1 s"):
            writer.wait(0.1)
        with pytest.raises(BridgeError, match="another write_epochs writes to"):
            write_epochs(topic, tmp_path / "epochs", **options)
        assert eventually(lambda: writer.has_ended or bool(writer._groups._parts))
        writer.close()
        writer.close()
        with pytest.raises(BridgeError, match="was closed before the topic ended"):
            writer.wait()
        written = content(tmp_path / "epochs")
        assert written == expected(range(10))[: len(written)]
        writer = write_epochs(topic, tmp_path / "epochs", **options)
        job.input("rows").send(pa.table({"x": [1]}))
        job.input("rows").close()
        with pytest.raises(BridgeError, match="time 10 has the columns"):
            writer.wait(DEADLINE_S)
        with pytest.raises(BridgeError, match="time 10 has the columns"), writer:
            pass
        assert content(tmp_path / "epochs") == expected(range(10))
        tw.end_subscription(topic, writer.subscription)
        job.wait(timeout_s=DEADLINE_S)
    assert eventually(lambda: own_traces() <= before), own_traces() - before
