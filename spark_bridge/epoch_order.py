"""Finding, checking and sorting by the column of epochs of a DataFrame."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import DataType, IntegralType

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.spark_types import quoted

EPOCH = "__tidewheel_epoch"
"""The temporary column of computed epochs, which rows have until they are sent."""


@dataclass(frozen=True, slots=True)
class EpochColumn:
    """A DataFrame with its column of epochs.

    Attributes:
        name: the name of the DataFrame, for messages.
        is_own: whether the column is the user's, and stays in the rows.
    """

    df: DataFrame
    column: str
    name: str
    is_own: bool

    def words(self, kind: str = "") -> str:
        """Describe the column for messages, with its type if given."""
        what = f"column {self.column!r}" if self.is_own else "the result of time="
        return f"{what}{kind and f' ({kind})'} of DataFrame {self.name!r}"


def epoch_column(df: DataFrame, name: str, time: str | Column | Callable[[DataFrame], Column]) -> EpochColumn:
    """Return the column of epochs that ``time`` describes.

    Raises:
        BridgeError: the column is missing or not of integers, or ``time`` is something else.
    """
    if isinstance(time, str):
        return _checked(EpochColumn(df, time, name, is_own=True))

    if EPOCH in df.columns:
        raise BridgeError(f"DataFrame {name!r} has a column {EPOCH!r}, which is needed here: rename it")
    try:
        column: Any = time(df) if callable(time) and not isinstance(time, Column) else time
        if not isinstance(column, Column):
            source = "its function returned" if callable(time) else "it is"
            raise BridgeError(
                f"time= of DataFrame {name!r} is the name of a column, a Column, or a function that takes the "
                f"DataFrame and returns a Column; {source} {column!r}"
            )
        computed = df.withColumn(EPOCH, column)
    except PySparkException as error:
        raise BridgeError(f"time= of DataFrame {name!r} is no column of it: {error}") from error
    return _checked(EpochColumn(computed, EPOCH, name, is_own=False))


def _checked(epochs: EpochColumn) -> EpochColumn:
    df, time = epochs.df, epochs.column
    if time not in df.columns:
        raise BridgeError(f"DataFrame {epochs.name!r} has no column {time!r} for time=; it has {', '.join(df.columns)}")
    kind: DataType = df.schema[time].dataType
    if not isinstance(kind, IntegralType):
        raise BridgeError(
            f"{epochs.words()} is {kind.simpleString()}, and an epoch is an integer: cast it, or number its values in "
            f"order (dense_rank().over(Window.orderBy(...)) - 1)"
        )
    return epochs


def checked_row_count(df: DataFrame, epochs: EpochColumn) -> int:
    """Check all epochs in one aggregation of the cached ``df``; return the number of rows.

    Raises:
        BridgeError: an epoch is null or negative.
    """
    time = epochs.column
    epoch = functions.col(quoted(time))
    aggregates = (functions.count(functions.lit(1)), functions.count(epoch), functions.min(epoch).cast("long"))
    rows, present, least = df.agg(*aggregates).collect()[0]
    column = epochs.words(df.schema[time].dataType.simpleString())
    if present < rows:
        cure = (
            f"drop them (df.dropna(subset=[{time!r}])) or fill them (df.fillna(..., subset=[{time!r}]))"
            if epochs.is_own
            else "drop such rows, or coalesce() them to some epoch"
        )
        raise BridgeError(
            f"{column} holds {rows - present} null(s) in {rows} rows, and a row without an epoch has no place in time: "
            f"{cure}"
        )
    if present and least < 0:
        raise BridgeError(f"{column} holds negative epochs, down to {least}: time starts at 0, so shift or drop them")
    return int(rows)


def in_epoch_order(df: DataFrame, time: str, count: int) -> DataFrame:
    """Return ``df`` in ``count`` partitions in the order of ``time``; a large epoch may span several partitions."""
    epoch = functions.col(quoted(time))
    return df.repartitionByRange(count, epoch, _salt(df)).sortWithinPartitions(epoch)


def _salt(df: DataFrame) -> Column:
    """Return a hash of the hashable columns, so that each computation divides an epoch in the same way."""
    # Spark cannot hash maps, not even inside other types.
    hashable = [field.name for field in df.schema.fields if "map<" not in field.dataType.simpleString()]
    return functions.xxhash64(*(functions.col(quoted(name)) for name in hashable))


@contextmanager
def cached(df: DataFrame) -> Iterator[DataFrame]:
    """Keep the rows of ``df`` in Spark's cache during the ``with`` block, so that they are computed once.

    If ``df`` was cached before, it stays cached.
    """
    if df.storageLevel != StorageLevel.NONE:
        yield df
        return
    df.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield df
    finally:
        df.unpersist()
