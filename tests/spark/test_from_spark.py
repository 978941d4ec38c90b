"""DataFrames as sources: epochs, their order, and what is refused."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import ray
from pyspark import StorageLevel
from pyspark.sql import functions

from tests.spark.sources import KeepsSource, arriving, part_of, read
from tidewheel.spark_bridge import BridgeError, from_spark
from tidewheel.spark_bridge.dataframe_blocks import BLOCKS_AHEAD, CACHED, DataFrameBlocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_come_once_and_in_epoch_order(spark: "SparkSession", workers: int) -> None:
    """Each worker's epochs never decrease, blocks follow each other in time, and no row is lost or repeated."""
    df = spark.range(20_000).selectExpr("id", "cast(abs(hash(id)) % 50 as int) as epoch")
    source = from_spark(KeepsSource(), "numbers", df, time="epoch", partitions=8)
    parts = read(source, workers)
    for part in parts:
        assert all(earlier[0] <= later[0] for earlier, later in pairwise(part))
        assert all(set(batch["epoch"].to_pylist()) == {epoch} for epoch, batch in part)
    assert sorted(row for part in parts for _, batch in part for row in batch["id"].to_pylist()) == list(range(20_000))
    ranges = [(block[0][0], block[-1][0]) for block in read(source, len(source.blocks)) if block]
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(ranges))


def test_one_big_epoch_is_shared(spark: "SparkSession") -> None:
    """An epoch with nearly all rows is split over blocks, so that no worker has to read it alone."""
    df = spark.range(10_000).selectExpr("id", "cast(if(id < 10, id, 5) as bigint) as epoch")
    source = from_spark(KeepsSource(), "skewed", df, time="epoch", partitions=6)
    sizes = [sum(batch.num_rows for _, batch in part) for part in read(source, 6)]
    assert sum(sizes) == 10_000
    assert max(sizes) < 5_000


def test_without_a_time_column_all_is_one_epoch(spark: "SparkSession") -> None:
    """Every row is at time 0, in as many blocks as were asked for."""
    source = from_spark(KeepsSource(), "plain", spark.range(1_000), partitions=3)
    parts = read(source, 3)
    assert all(time == 0 for part in parts for time, _ in part)
    assert all(part for part in parts)
    assert sorted(row for part in parts for _, batch in part for row in batch["id"].to_pylist()) == list(range(1_000))


@pytest.mark.parametrize("time", [None, "epoch"])
@pytest.mark.parametrize("query", ["select 1L as epoch where false", "select id as epoch from range(9) where id > 9"])
def test_no_rows(spark: "SparkSession", query: str, time: str | None) -> None:
    """An empty DataFrame is a source that ends at once and still knows its columns."""
    source = from_spark(KeepsSource(), "empty", spark.sql(query), time=time)
    assert read(source, 2) == [[], []]
    assert source.blocks.schema.names == ["epoch"]
    assert source.blocks.schema.types == [pa.int64()]


def test_a_dataframe_without_partitions(spark: "SparkSession") -> None:
    """Spark knows of some empty DataFrames that they have not even a partition."""
    df = spark.createDataFrame(spark.sparkContext.emptyRDD(), "a int")
    assert read(from_spark(KeepsSource(), "empty", df), 2) == [[], []]


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint"])
def test_every_integer_type_is_an_epoch(spark: "SparkSession", kind: str) -> None:
    """Epochs are plain ints, whatever the width of their column, which stays in the rows."""
    df = spark.range(4).selectExpr(f"cast(id + 120 as {kind}) as `the epoch.`")
    (part,) = read(from_spark(KeepsSource(), "narrow", df, time="the epoch.", partitions=1), 1)
    assert [(epoch, batch["the epoch."].to_pylist()) for epoch, batch in part] == [(n, [n]) for n in range(120, 124)]
    assert all(type(epoch) is int for epoch, _ in part)


def test_maps_do_not_hinder_the_order(spark: "SparkSession") -> None:
    """Spark neither hashes nor compares maps; rows that hold one are ordered all the same."""
    df = spark.range(100).selectExpr("id % 3 as epoch", "map('k', id) as m", "array(struct(map(id, 1) as m)) as a")
    (part,) = read(from_spark(KeepsSource(), "maps", df, time="epoch", partitions=4), 1)
    assert [epoch for epoch, _ in part] == sorted(epoch for epoch, _ in part)
    assert sorted(pair[1] for _, batch in part for (pair,) in batch["m"].to_pylist()) == list(range(100))


def test_nulls_in_the_epoch_column_are_refused(spark: "SparkSession") -> None:
    """The message says which column, of what type and DataFrame, how many nulls, and how to be rid of them."""
    df = spark.sql("select if(id % 4 = 0, null, cast(id as int)) as day from range(20)")
    with pytest.raises(BridgeError) as raised:
        from_spark(KeepsSource(), "visits", df, time="day")
    message = str(raised.value)
    assert "column 'day' (int) of DataFrame 'visits' holds 5 null(s) in 20 rows" in message
    assert "df.dropna(subset=['day'])" in message
    assert df.storageLevel == StorageLevel.NONE


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("cast(id as string)", r"column 'day' of DataFrame 'visits' is string, and an epoch is an integer: cast it"),
        ("cast(id as double)", "is double, and an epoch is an integer"),
        ("date'2020-01-01'", "is date, and an epoch is an integer"),
        ("id - 3", r"column 'day' \(bigint\) of DataFrame 'visits' holds negative epochs, down to -3"),
    ],
)
def test_other_epochs_are_refused(spark: "SparkSession", expression: str, message: str) -> None:
    """What is no time, or lies before time begins, is refused before anything runs."""
    with pytest.raises(BridgeError, match=message):
        from_spark(KeepsSource(), "visits", spark.range(9).selectExpr(f"{expression} as day"), time="day")


def test_an_unknown_column_is_refused(spark: "SparkSession") -> None:
    """The message lists the columns that there are; names are exact, unlike Spark's own."""
    with pytest.raises(BridgeError, match="DataFrame 'visits' has no column 'Day' for time=; it has id, day"):
        from_spark(KeepsSource(), "visits", spark.range(9).selectExpr("id", "id as day"), time="Day")


def test_columns_that_arrow_cannot_hold_are_refused(spark: "SparkSession") -> None:
    """All of them are named with their types, also where only a part of a column is to blame."""
    df = spark.sql("select 1 as ok, interval 1 month as a, array(interval 2 year) as b, make_interval(1) as c")
    with pytest.raises(BridgeError) as raised:
        from_spark(KeepsSource(), "spans", df)
    assert "a (interval month), b (array<interval year>), c (interval)" in str(raised.value)
    assert "ok" not in str(raised.value)


def test_two_columns_of_one_name_are_refused(spark: "SparkSession") -> None:
    """A join without care makes them, and nothing after it could tell them apart."""
    with pytest.raises(BridgeError, match="DataFrame 'pairs' has several columns called id: rename them"):
        from_spark(KeepsSource(), "pairs", spark.range(2).join(spark.range(2)))


@pytest.mark.parametrize("partitions", [0, -1])
def test_no_blocks_are_refused(spark: "SparkSession", partitions: int) -> None:
    """A number of blocks that cannot be is an error of the caller."""
    with pytest.raises(BridgeError, match=f"not partitions={partitions}"):
        from_spark(KeepsSource(), "none", spark.range(2), partitions=partitions)


def test_what_is_no_batch_dataframe_is_refused(spark: "SparkSession") -> None:
    """A streaming DataFrame, or no DataFrame of Spark at all, is told apart from one that can be read."""
    with pytest.raises(BridgeError, match="'rate' is a streaming one"):
        from_spark(KeepsSource(), "rate", spark.readStream.format("rate").load())
    other: Any = [1, 2]
    with pytest.raises(BridgeError, match=r"'list' is a builtins\.list, not a Spark DataFrame"):
        from_spark(KeepsSource(), "list", other)


@pytest.mark.parametrize("cached", [False, True])
def test_the_cache_is_left_as_it_was(spark: "SparkSession", cached: bool) -> None:
    """What from_spark caches it drops again, what the user cached stays cached."""
    df = spark.range(100).selectExpr("id", f"id % {7 + cached} as epoch")
    if cached:
        df.cache()
    from_spark(KeepsSource(), "numbers", df, time="epoch")
    assert (df.storageLevel != StorageLevel.NONE) is cached
    df.unpersist()


def test_spark_keeps_blocks_no_longer_than_their_dataflow(spark: "SparkSession") -> None:
    """Its copy of what belongs to no dataflow any more is dropped at the next conversion: memory does not fill."""
    context: Any = spark.sparkContext._jsc
    gc.collect()
    from_spark(KeepsSource(), "first", spark.range(1_000))
    before = set(context.getPersistentRDDs())
    kept = from_spark(KeepsSource(), "second", spark.range(1_000))
    during = set(context.getPersistentRDDs())
    assert len(during) == 1
    assert not during & before
    from_spark(KeepsSource(), "third", spark.range(1_000))
    assert during < set(context.getPersistentRDDs())
    assert sum(batch.num_rows for part in read(kept) for _, batch in part) == 1_000


@pytest.mark.parametrize("time", [None, "number"])
def test_what_could_not_be_computed_leaves_nothing(spark: "SparkSession", time: str | None) -> None:
    """Spark would keep what it had of it; the error says what Spark does, without a page of Java."""
    context: Any = spark.sparkContext._jsc
    before = set(context.getPersistentRDDs())
    df = spark.range(100, numPartitions=4).selectExpr("if(id = 99, raise_error('no number'), id) as number")
    site = spark.sparkContext.getLocalProperty("callSite.short")
    with pytest.raises(BridgeError, match=r"Spark could not compute DataFrame 'numbers': .*no number") as raised:
        from_spark(KeepsSource(), "numbers", df, time=time)
    assert "\tat org.apache" not in str(raised.value)
    assert set(context.getPersistentRDDs()) <= before
    assert spark.sparkContext.getLocalProperty("callSite.short") == site


def test_threads_may_call_together(spark: "SparkSession") -> None:
    """Each has its own rows, and what they drop meanwhile does not pile up in Spark's cache."""
    before = len(CACHED)

    def rows_of(n: int) -> list[int]:
        source = from_spark(KeepsSource(), f"from {n}", spark.range(n, n + 3, numPartitions=2))
        return sorted(number for part in read(source) for _, batch in part for number in batch["id"].to_pylist())

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(rows_of, range(18))) == [[n, n + 1, n + 2] for n in range(18)]
    gc.collect()
    CACHED.prune(spark.range(1))
    assert len(CACHED) <= before


@pytest.mark.parametrize("how", ["column", "function"])
def test_epochs_may_be_computed(spark: "SparkSession", how: str) -> None:
    """A Column, or a function of the DataFrame that returns one, tells the epochs, and is not among the rows."""
    df = spark.range(60)
    time: Any = (functions.col("id") / 7).cast("int") if how == "column" else lambda rows: (rows.id / 7).cast("int")
    (part,) = read(from_spark(KeepsSource(), "weeks", df, time=time, partitions=3), 1)
    assert [epoch for epoch, _ in part] == sorted(epoch for epoch, _ in part)
    assert all(set(batch.column_names) == {"id"} for _, batch in part)
    assert sorted((epoch, n) for epoch, batch in part for n in batch["id"].to_pylist()) == [
        (n // 7, n) for n in range(60)
    ]


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (7, r"time= of DataFrame 'visits' is the name of a column, .* it is 7"),
        (lambda _: "id", r"its function returned 'id'"),
        (lambda rows: rows["nothing"], r"time= of DataFrame 'visits' is no column of it: .*nothing"),
        (lambda rows: rows.id / 2, r"the result of time= of DataFrame 'visits' is double, and an epoch is an integer"),
        (lambda rows: rows.id - 3, r"the result of time= \(bigint\) of .* holds negative epochs, down to -3"),
        (lambda rows: functions.nullif(rows.id, functions.lit(3)), r"1 null\(s\) in 9 rows.*coalesce"),
    ],
)
def test_other_computed_epochs_are_refused(spark: "SparkSession", time: Any, message: str) -> None:
    """What time= is, or computes, has to be integers that are there and not negative."""
    with pytest.raises(BridgeError, match=message):
        from_spark(KeepsSource(), "visits", spark.range(9), time=time)


def test_a_reader_asks_for_few_blocks_ahead(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows of a DataFrame are there when few of its blocks have been asked for."""
    source = from_spark(KeepsSource(), "numbers", spark.range(12_000), time="id", partitions=12)
    asked: list[int] = []
    assert source.blocks.stored is None
    request = source.blocks.request

    def counted(_: DataFrameBlocks, number: int) -> Any:
        asked.append(number)
        return request(number)

    monkeypatch.setattr(DataFrameBlocks, "request", counted)
    epoch, first = next(arriving(part_of(source, 0, 1)))
    assert (epoch, first.num_rows) == (0, 1)
    assert len(asked) == BLOCKS_AHEAD + 1 < 12 / 3


def test_a_source_is_read_in_another_process(spark: "SparkSession") -> None:
    """The source goes to a Ray actor pickled, references and all, and is read there."""

    class Reader:
        def total(self, source: Any, worker: int, workers: int) -> tuple[int, int]:
            batches = [batch for _, batch in arriving(part_of(source, worker, workers))]
            return os.getpid(), sum(sum(batch["id"].to_pylist()) for batch in batches)

    source = from_spark(KeepsSource(), "numbers", spark.range(1_000), partitions=4)
    readers: list[Any] = [ray.remote(Reader).options(num_cpus=0).remote() for _ in range(2)]
    found = ray.get([reader.total.remote(source, worker, 2) for worker, reader in enumerate(readers)])
    assert os.getpid() not in {pid for pid, _ in found}
    assert sum(total for _, total in found) == sum(range(1_000))
