"""The rows of a DataFrame as blocks, each of which is an Arrow IPC stream when it comes.

One partition of the DataFrame becomes one block. Spark computes the partitions into its cache, and each executor, being
a Ray actor, returns its own as results of actor calls, to the workers that read them (`cached_blocks`) or to this
process; rows never pass through the driver, and no Python worker takes part. RayDP's own conversion to a Ray dataset
takes the same path from Spark, and then runs Ray tasks that need a free CPU: it hangs when the executors hold all.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidewheel.runtime import Pause
from tidewheel.spark_bridge.arrival import arrival
from tidewheel.spark_bridge.block_stream import put_block
from tidewheel.spark_bridge.cached_blocks import CACHED, SILENCE_SECONDS, STORED_ADVICE, CachedBlocks
from tidewheel.spark_bridge.driver_transport import collected, is_on_ray, note
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.java_errors import computing
from tidewheel.spark_bridge.jvm import arrow_schema_stream, column_types, is_determinate, partition_count
from tidewheel.spark_bridge.spark_types import readable_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from ray import ObjectRef

ROWS_PER_BLOCK = 65_536
"""How many rows ``from_spark`` puts in a block with an epoch column, unless it is told how many blocks to make."""


@dataclass(frozen=True, slots=True)
class ArrowBlocks:
    """A DataFrame in the object store.

    Attributes:
        schema: the schema of every block.
        references: one Ray object per block, an Arrow IPC stream, in the order of the DataFrame's partitions.
        places: the Ray node that each block is on, empty where that is not known; none if it is known of none.
    """

    schema: "pa.Schema"
    references: "tuple[ObjectRef[bytes], ...]"
    places: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.references)

    @property
    def advice(self) -> str:
        """What to do when one is lost."""
        return STORED_ADVICE

    def read(self, numbers: Iterable[int]) -> "Generator[Pause | tuple[int, bytes], None, None]":
        """Yield the blocks of these numbers with their numbers, and a `Pause` while the next one is on its way here.

        Raises:
            ray.exceptions.RayError: one is lost.
        """
        for number in numbers:
            block = yield from arrival(self.references[number], SILENCE_SECONDS)
            yield number, block


def arrow_schema(df: "DataFrame", name: str) -> "pa.Schema":
    """Return the Arrow schema that Spark gives the rows of ``df``.

    Raises:
        BridgeError: columns are of a type that Arrow does not have, or share a name; ``name`` says which DataFrame.
    """
    types = column_types(df)
    counts = Counter(column for column, _ in types)
    repeated = [column for column, count in counts.items() if count > 1]
    if repeated:
        raise BridgeError(f"DataFrame {name!r} has several columns called {', '.join(repeated)}: rename them")
    schema = _arrow_schema(df)
    if schema is not None:
        return schema
    foreign = [f"{column} ({kind})" for column, kind in types if _arrow_schema(df.select(quoted(column))) is None]
    raise BridgeError(
        f"DataFrame {name!r} has columns that Arrow cannot hold: {', '.join(foreign)}. "
        "Cast them (to string, or to numbers) or leave them out."
    )


def cached_blocks(df: "DataFrame", name: str, count: int | None = None) -> ArrowBlocks | CachedBlocks:
    """Compute ``df`` and return its rows as blocks, which those who read them fetch from Spark.

    There is one for each partition, or, of a Spark that does not run on Ray, ``count`` of them. They are stored in Ray
    at once where Spark cannot be trusted to compute a partition again as it was, should an executor die; and where
    there is no executor.

    Raises:
        BridgeError: the DataFrame's types have no Arrow form, or Spark could not compute it.
    """
    schema = arrow_schema(df, name)
    if not is_on_ray(df.sparkSession):
        return ArrowBlocks(schema, tuple(_put_blocks(df, name, schema, count)))
    if not partition_count(df):
        return ArrowBlocks(schema, ())
    with computing(name):
        blocks = CACHED.add(df, schema)
    return blocks if is_determinate(df.sparkSession, blocks.rdd.number) else _stored(df, blocks)


def store_blocks(df: "DataFrame", name: str, count: int | None = None) -> ArrowBlocks:
    """Compute ``df`` and return its rows as blocks, all of them in the object store already.

    They are as for `cached_blocks`. Spark keeps nothing of it afterwards, so the blocks outlive the Spark session; a
    block that Ray loses with its node is then gone for good.

    Raises:
        BridgeError: the DataFrame's types have no Arrow form.
    """
    blocks = cached_blocks(df, name, count)
    return blocks if isinstance(blocks, ArrowBlocks) else _stored(df, blocks)


def _stored(df: "DataFrame", blocks: CachedBlocks) -> ArrowBlocks:
    """Store blocks, and drop them from Spark's cache."""
    try:
        return ArrowBlocks(blocks.schema, blocks.store(), blocks.places)
    finally:
        CACHED.release(df, blocks)


def _put_blocks(df: "DataFrame", name: str, schema: "pa.Schema", count: int | None) -> "Iterator[ObjectRef[bytes]]":
    """Put the rows of a DataFrame of another Spark into the object store.

    All of them are on this node, so there is nothing to choose for workers that read as many blocks each.
    """
    note(df.sparkSession, f"DataFrame {name!r}")
    with computing(name):
        table = collected(df, schema)
    rows = -(-table.num_rows // (count or block_count(table.num_rows, df)))
    for start in range(0, table.num_rows, max(1, rows)):
        yield put_block([table.slice(start, rows)])[0]


def block_count(rows: int, df: "DataFrame") -> int:
    """Return how many blocks to make of so many rows: enough for each core of Spark to have some of the work."""
    return max(-(-rows // ROWS_PER_BLOCK), 2 * df.sparkSession.sparkContext.defaultParallelism)


def quoted(column: str) -> str:
    """Return ``column`` as Spark resolves exactly this name, dots and backquotes included.

    >>> quoted("net.price")
    '`net.price`'
    """
    return "`" + column.replace("`", "``") + "`"


def _arrow_schema(df: "DataFrame") -> "pa.Schema | None":
    """Return the Arrow schema of ``df``, or None if it has none that both Spark and pyarrow know."""
    import pyarrow as pa
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    if not is_on_ray(df.sparkSession):
        try:
            return readable_schema(to_arrow_schema(df.schema), "the DataFrame")
        except (PySparkException, ValueError):  # of types that PySpark does not even know
            return None
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(arrow_schema_stream(df))).remove_metadata()
    except (Py4JError, PySparkException, pa.ArrowException):
        return None
    return schema if all(map(_has_arrays, schema.types)) else None


def _has_arrays(kind: "pa.DataType") -> bool:
    """Whether pyarrow has arrays of ``kind`` and of all that is in it; it knows some types by name only."""
    import pyarrow as pa

    try:
        pa.nulls(0, kind)
    except KeyError:
        return False
    return all(_has_arrays(kind.field(child).type) for child in range(kind.num_fields))
