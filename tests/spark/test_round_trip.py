"""Rows that go from Spark into a dataflow and back are the rows that they were."""

import gc
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.spark.sources import KeepsSource, messages, read
from tests.waiting import eventually
from tidewheel.runtime.engines.captured import CapturedOnWorkers
from tidewheel.spark_bridge import BridgeError, dataframe_sink, from_spark, to_spark
from tidewheel.spark_bridge.dataframe_sink import LEASES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 3_000
COLUMNS = {
    "tinyint": "cast(id % 256 - 128 as tinyint)",
    "smallint": "cast(id - 999 as smallint)",
    "int": "cast(id * 700001 as int)",
    "bigint": "id * 3037000493",
    "float": "cast(id / 7 as float)",
    "double": "if(id % 11 = 0, double('NaN'), if(id % 13 = 0, double('-Infinity'), id / 3))",
    "string": "repeat('é\u4e16', cast(id % 5 as int))",
    "boolean": "id % 3 = 0",
    "binary": "unhex(hex(id))",
    "date": "date_add(date'1969-12-01', cast(id as int))",
    "timestamp": "timestamp_micros(id * 86399999999 - 1000000000000)",
    "timestamp_ntz": "cast(timestamp_micros(id * 7000000001) as timestamp_ntz)",
    "decimal(38,10)": "cast(id * 12345678901 as decimal(38,10)) / 7",
    "interval day to second": "make_dt_interval(0, 0, 0, id)",
    "array": "transform(sequence(0, id % 4), x -> if(x = 2, null, array(x, id)))",
    "struct": "named_struct('a', id, 'b', named_struct('c', cast(id as string), 'd', array(id % 2 = 0)))",
    "map": "map(cast(id as string), id, 'k', null)",
    "void": "null",
}
JSON = "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS XXX')"


def same_rows(one: "DataFrame", other: "DataFrame") -> bool:
    """Tell whether two DataFrames hold the same rows the same number of times; maps do not compare, their text does."""
    first, second = (df.selectExpr(f"to_json(struct(*), {JSON}) as row") for df in (one, other))
    return first.exceptAll(second).isEmpty() and second.exceptAll(first).isEmpty()


@pytest.mark.parametrize("kinds", [[kind for kind in COLUMNS if kind != "map"], ["map"]], ids=["all but maps", "maps"])
def test_values_survive_the_round_trip(spark: "SparkSession", kinds: list[str]) -> None:
    """Every type comes back as it was and with the same values, nulls among them, as the same multiset of rows.

    Maps are apart, as Spark orders rows that hold one by their other columns.
    """
    values = [f"if((id + {at}) % 7 = 0, null, {COLUMNS[kind]}) as `{kind}`" for at, kind in enumerate(kinds)]
    df = spark.range(ROWS).selectExpr(*values, "cast(id % 5 as int) as epoch")
    back = to_spark(spark, messages(from_spark(KeepsSource(), "values", df, time="epoch", partitions=3)), time=None)
    assert back.schema.simpleString() == df.schema.simpleString()
    assert back.count() == ROWS
    assert same_rows(df, back), [name for name in df.columns if not same_rows(df[[name]], back[[name]])]


def test_differing_rows_are_told_apart(spark: "SparkSession") -> None:
    """The comparison that these tests rest on counts rows and sees a microsecond."""
    df = spark.sql("select explode(array(1, 1, 2)) as n, timestamp_micros(5) as t")
    assert same_rows(df, df.select("n", "t"))
    assert not same_rows(df, df.distinct())
    assert not same_rows(df, df.selectExpr("n", "t + make_dt_interval(0, 0, 0, 0.000001) as t"))


def test_timestamps_are_the_same_instants(spark: "SparkSession") -> None:
    """A timestamp means the same to Arrow as to Spark: microseconds since 1970 in UTC."""
    df = spark.sql("select timestamp_micros(1234567890123456) as at, unix_micros(timestamp_micros(7)) as seven")
    ((_, table),) = [message for part in read(from_spark(KeepsSource(), "instants", df)) for message in part]
    assert table["at"].cast(pa.int64()).to_pylist() == [1234567890123456]
    assert to_spark(spark, [SimpleNamespace(time=0, batch=table)], time=None).first() == df.first()


def test_the_time_becomes_a_column(spark: "SparkSession") -> None:
    """Each row has the time of its batch, whatever kind of batch it came in."""
    batches = [[{"n": 1}, {"n": 2}], pa.table({"n": [3]}), pa.RecordBatch.from_pylist([{"n": 4}]), []]
    sent = [SimpleNamespace(time=10 * at, batch=batch) for at, batch in enumerate(batches)]
    df = to_spark(spark, sent, time="at")
    assert sorted(map(tuple, df.collect())) == [(1, 0), (2, 0), (3, 10), (4, 20)]
    assert df.schema.simpleString() == "struct<n:bigint,at:bigint>"


def test_the_time_is_kept_unless_it_is_refused(spark: "SparkSession") -> None:
    """Its column is "time" by default; a clash, and a time that is no number, are errors that say what to do."""
    sent = [SimpleNamespace(time=7, batch=[{"n": 1}])]
    assert to_spark(spark, sent).collect() == [(1, 7)]
    assert to_spark(spark, sent).columns == ["n", "time"]
    assert to_spark(spark, sent, time=None).columns == ["n"]
    with pytest.raises(BridgeError, match=r"has a column 'time': pass time= another name, or time=None for no such"):
        to_spark(spark, [SimpleNamespace(time=7, batch=[{"Time": 1}])])
    with pytest.raises(BridgeError, match=r"time \(0, 1\) is no 64-bit integer.*Pass time=None"):
        to_spark(spark, [SimpleNamespace(time=(0, 1), batch=[{"n": 1}])])


def test_epochs_are_read_whole(spark: "SparkSession") -> None:
    """What has epochs() is read epoch by epoch, each with all its batches."""
    tables = [pa.table({"n": pa.array([n, n], pa.int16()).dictionary_encode()}) for n in range(3)]
    epochs = [SimpleNamespace(time=0, batches=tables[:2]), SimpleNamespace(time=1, batches=tables[2:])]
    df = to_spark(spark, SimpleNamespace(epochs=lambda: iter(epochs)), time="epoch")
    assert sorted(map(tuple, df.collect())) == [(0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1)]


def test_no_rows_with_columns(spark: "SparkSession") -> None:
    """The columns come from tables without rows, or from schema=; without either there is an error that says so."""
    schema = pa.schema([("a", pa.int8()), ("b", pa.list_(pa.string()))])
    for df in (
        to_spark(spark, [SimpleNamespace(time=0, batch=schema.empty_table())], time=None),
        to_spark(spark, [], schema=schema, time=None),
        to_spark(spark, [SimpleNamespace(time=0, batch=[])], schema=schema, time=None),
    ):
        assert df.schema.simpleString() == "struct<a:tinyint,b:array<string>>"
        assert df.collect() == []
    with pytest.raises(BridgeError, match="pass schema= to to_spark"):
        to_spark(spark, [SimpleNamespace(time=0, batch=[])])


def test_what_is_no_message_is_refused(spark: "SparkSession") -> None:
    """A list of tables, say, has no times."""
    with pytest.raises(BridgeError, match="given a Table, not a message"):
        to_spark(spark, [pa.table({"a": [1]})])


def test_large_results_become_several_partitions(spark: "SparkSession") -> None:
    """A table larger than a block is cut up, so that executors share it; all rows arrive."""
    rows = 1_500_000
    table = pa.table({"n": range(rows), "twice": range(0, 2 * rows, 2)})
    df = to_spark(spark, [SimpleNamespace(time=0, batch=table)])
    assert df.rdd.getNumPartitions() == 2
    assert df.selectExpr("count(*)", "sum(n)", "sum(twice - n)").first() == (rows, sum(range(rows)), sum(range(rows)))


def test_rows_live_as_long_as_spark_can_read_them(spark: "SparkSession") -> None:
    """A derived DataFrame keeps the blocks of one that is gone; when Spark has dropped both, Ray gets them back."""
    LEASES.clear()
    df = to_spark(spark, [SimpleNamespace(time=0, batch=[{"n": n} for n in range(10)])])
    derived = df.where("n > 6")
    del df
    collect_everywhere(spark)
    LEASES.prune()
    assert len(LEASES) == 1
    assert derived.count() == 3
    del derived
    deadline = time.monotonic() + 30
    while len(LEASES) and time.monotonic() < deadline:
        collect_everywhere(spark)
        LEASES.prune()
    assert len(LEASES) == 0


@pytest.mark.long
def test_calls_leave_nothing(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """DataFrames that nobody has any more do not pile up in the object store, however little the JVM needs its heap.

    Py4J tells the JVM up to a second later which objects Python has dropped, and a fast machine makes a hundred
    DataFrames meanwhile. So the number is looked at while calls go on, until it is small again.
    """
    monkeypatch.setattr(dataframe_sink, "LEASES_BETWEEN_COLLECTIONS", 40)
    LEASES.clear()
    table = pa.table({"n": range(10)})

    def after_one_more() -> int:
        to_spark(spark, [SimpleNamespace(time=0, batch=table)])
        return len(LEASES)

    assert max(after_one_more() for _ in range(130)) >= 40
    for _ in range(2):
        assert eventually(lambda: after_one_more() > 50)
        assert eventually(lambda: after_one_more() < 45)
    assert to_spark(spark, [SimpleNamespace(time=0, batch=table)]).count() == 10


def test_threads_may_call_together(spark: "SparkSession") -> None:
    """The rows of each stay as long as Spark can read them."""
    LEASES.clear()

    def made(n: int) -> "DataFrame":
        return to_spark(spark, [SimpleNamespace(time=0, batch=pa.table({"n": [n]}))], time=None)

    with ThreadPoolExecutor(12) as threads:
        kept = list(threads.map(made, range(24)))
    assert len(LEASES) == 24
    assert [df.first() for df in kept] == [(n,) for n in range(24)]


def collect_everywhere(spark: "SparkSession") -> None:
    """Run the garbage collectors of this process and of the driver's JVM."""
    gc.collect()
    jvm: Any = spark._jvm
    jvm.System.gc()


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_through_a_dataflow(spark: "SparkSession", engine: Any) -> None:
    """A DataFrame goes through a dataflow, by epochs and with an exchange between two workers, and comes out again."""
    df = spark.range(5_000).selectExpr("id", "cast(id % 9 as int) as day", "cast(id as string) as name")
    flow = tw.Dataflow("through")
    from_spark(flow, "rows", df, time="day").exchange(lambda row: row["id"]).capture("rows")
    with tw.run(flow, workers=2, engine=engine) as job:
        job.wait()
        captured = job.captured("rows")
    back = to_spark(spark, captured, time="time")
    assert same_rows(back.drop("time"), df)
    assert back.where("time = day").count() == 5_000


@contextmanager
def captured_by_two(feed: Sequence[tuple[int, Any]]) -> Iterator[tuple[tw.types.Job, CapturedOnWorkers]]:
    """Have two workers of a job capture batches, which are sent at their times, to the workers in turn."""
    flow = tw.Dataflow("capturing")
    flow.input("rows").capture("rows")
    with tw.run(flow, workers=2) as job:
        with job.input("rows") as handle:
            for at, batch in feed:
                handle.advance_to(at)
                handle.send(batch)
        job.wait(60)
        captured = job.captured("rows")
        assert isinstance(captured, CapturedOnWorkers)
        yield job, captured


def test_workers_make_partitions_of_what_they_captured(spark: "SparkSession") -> None:
    """Rows of a job that runs do not come to the driver: neither many nor few."""
    for rows in (500_000, 5):
        with captured_by_two([(at, pa.table({"n": range(at * rows, (at + 1) * rows)})) for at in range(6)]) as (
            _,
            captured,
        ):
            df = to_spark(spark, captured, time="at")
            assert captured._fetched is None, "rows came to the driver"
        assert len(captured) == 6
        assert df.rdd.getNumPartitions() >= 2
        assert df.selectExpr("count(*)", "sum(n)").first() == (6 * rows, sum(range(6 * rows)))
        assert df.where(f"n div {rows} = at").count() == 6 * rows


def test_workers_agree_on_the_columns(spark: "SparkSession") -> None:
    """The first batch that tells columns tells them for all workers, or schema= does; what differs is refused."""
    with captured_by_two([(0, []), (1, [{"n": 1, "text": "one"}]), (2, [{"n": 2}]), (3, [{"text": "three"}])]) as (
        _,
        captured,
    ):
        df = to_spark(spark, captured, time=None)
        assert sorted(map(tuple, df.collect()), key=str) == [(1, "one"), (2, None), (None, "three")]
        with pytest.raises(BridgeError, match="at time 1 has records with 'text', which schema= has not"):
            to_spark(spark, captured, schema=pa.schema([("n", pa.int16())]))
        assert captured._fetched is None
    with captured_by_two([(0, pa.table({"n": [1]})), (1, pa.table({"m": [1]}))]) as (_, captured):
        with pytest.raises(BridgeError, match="A DataFrame has one schema") as caught:
            to_spark(spark, captured)
        assert "Traceback" not in str(caught.value)
    with captured_by_two([]) as (_, captured):
        assert to_spark(spark, captured, schema=pa.schema([("n", pa.int16())])).collect() == []
        with pytest.raises(BridgeError, match="pass schema= to to_spark"):
            to_spark(spark, captured)


def test_what_was_captured_is_there_when_its_workers_are_not(spark: "SparkSession") -> None:
    """The rows of a job that has ended come from the object store."""
    with captured_by_two([(at, pa.table({"n": [at]})) for at in range(4)]) as (_, captured):
        pass
    df = to_spark(spark, captured)
    assert sorted(row.n for row in df.collect()) == [0, 1, 2, 3]


@pytest.mark.long
def test_a_real_graph(spark: "SparkSession", pytestconfig: pytest.Config) -> None:
    """The dependency graph of the examples survives the round trip, as it is in its file."""
    path = pytestconfig.rootpath / "examples" / "data" / "debian-bookworm-dependencies.parquet"
    df = spark.read.parquet(str(path)).selectExpr("*", "cast(length(source) as int) as epoch")
    source = from_spark(KeepsSource(), "debian", df, time="epoch")
    back = to_spark(spark, messages(source), time=None)
    assert back.count() == 312_735
    assert back.exceptAll(df).isEmpty()
    assert df.exceptAll(back).isEmpty()
