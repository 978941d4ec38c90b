"""The rows of a DataFrame as Arrow batches in Spark's cache, from where the workers of a job fetch them.

Spark computes the partitions into its cache, in memory or on its disks. Each is fetched by the worker that reads it,
when it reads it, from the executor that has it: as a Ray object of the worker's own, which is gone when it was read. So
there is as much in the object store as workers are ahead, and nothing passes the driver.

What no job has read when the session ends is stored in Ray's object store then, so that a job may read it later.
"""

import logging
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.executors import request_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from ray import ObjectRef

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CachedRdd:
    """A cached RDD of Arrow batches.

    Attributes:
        number: by which Spark knows it.
        schema_json: the schema of the batches, as Arrow's JSON.
        agent: where RayDP's agent in the driver listens, which has Spark compute what was lost.
        holders: the numbers of the executors that have the partitions.
    """

    number: int
    schema_json: str
    agent: str
    holders: tuple[str | None, ...]

    def request(self, partition: int) -> "ObjectRef[bytes]":
        """Ask an executor for a partition, as an Arrow IPC stream."""
        return request_partition(self.holders[partition], self.number, partition, self.schema_json, self.agent)


@dataclass(slots=True, eq=False, weakref_slot=True)
class CachedBlocks:
    """A DataFrame in Spark's cache, a block for each partition.

    Attributes:
        schema: the schema of every block.
        rdd: where they are.
        stored: the blocks as Ray objects, None as long as they are only in Spark's cache.
        is_read: whether a job has been given them.
    """

    ADVICE: ClassVar = (
        "Spark has to run until a job has read what from_spark gave it: leave the block of session() after job.wait()."
    )

    schema: "pa.Schema"
    rdd: CachedRdd
    stored: "tuple[ObjectRef[bytes], ...] | None" = None
    is_read: bool = field(default=False)

    def __len__(self) -> int:
        return len(self.rdd.holders)

    def request(self, number: int) -> "ObjectRef[bytes]":
        """Return a block, which may be on its way yet.

        Raises:
            BridgeError: Spark has stopped.
        """
        self.is_read = True
        return self.rdd.request(number) if self.stored is None else self.stored[number]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a worker gets."""
        self.is_read = True
        return CachedBlocks, (self.schema, self.rdd, self.stored, True)

    def store(self) -> "tuple[ObjectRef[bytes], ...]":
        """Have all blocks stored in Ray's object store, and return them; Spark may stop then."""
        import ray

        stored = tuple(map(self.rdd.request, range(len(self))))
        ray.wait(list(stored), num_returns=len(stored), fetch_local=False)
        self.stored = stored
        return stored


class CachedDataFrames:
    """The cached blocks of this process, which drops from Spark's cache what nobody can read any more."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, int], weakref.ref[CachedBlocks]] = {}
        """By application and number, as another application of this process begins to number anew."""

    def __len__(self) -> int:
        return len(self._cached)

    def add(self, df: "DataFrame", schema: "pa.Schema") -> CachedBlocks:
        """Compute a DataFrame, which has a partition, and return its blocks."""
        from pyspark import StorageLevel

        self.prune(df)
        context: Any = df.sparkSession.sparkContext
        level = context._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK)
        info = _writer(df).prepareRecoverableRDD(df._jdf, level)
        rdd = CachedRdd(info.rddId(), info.schemaJson(), info.driverAgentUrl(), tuple(info.locations()))
        blocks = CachedBlocks(schema, rdd)
        self._cached[_application(df), rdd.number] = weakref.ref(blocks)
        return blocks

    def prune(self, df: "DataFrame") -> None:
        """Drop from the cache what belongs to no dataflow any more; `df` is any DataFrame of the session."""
        for key in [key for key, blocks in self._cached.items() if blocks() is None]:
            self._release(df, key)

    def release(self, df: "DataFrame", blocks: CachedBlocks) -> None:
        """Drop blocks that are stored from Spark's cache."""
        self._release(df, (_application(df), blocks.rdd.number))

    def store_unread(self) -> None:
        """Store what no job has read, as Spark is about to stop; what cannot be stored is logged."""
        for blocks in self._living():
            if blocks.is_read or blocks.stored is not None:
                continue
            try:
                blocks.store()
            except BridgeError as error:
                _logger.warning("a DataFrame of %d block(s) can be read no more: %s", len(blocks), error)

    def clear(self) -> None:
        """Forget all: Spark has stopped."""
        self._cached.clear()

    def _living(self) -> Iterator[CachedBlocks]:
        for reference in list(self._cached.values()):
            blocks = reference()
            if blocks is not None:
                yield blocks

    def _release(self, df: "DataFrame", key: tuple[str, int]) -> None:
        application, number = key
        if application == _application(df):
            _writer(df).releaseRecoverableRDD(number)
        del self._cached[key]


def is_determinate(df: "DataFrame", blocks: CachedBlocks) -> bool:
    """Tell whether Spark would compute the same rows in each partition, if it had to do so again."""
    context: Any = df.sparkSession.sparkContext._jsc
    rdd = context.getPersistentRDDs().get(blocks.rdd.number).rdd()
    return str(rdd.outputDeterministicLevel().toString()) != "INDETERMINATE"


def _application(df: "DataFrame") -> str:
    return str(df.sparkSession.sparkContext.applicationId)


def _writer(df: "DataFrame") -> Any:
    jvm: Any = df.sparkSession._jvm
    return jvm.org.apache.spark.sql.raydp.ObjectStoreWriter


CACHED = CachedDataFrames()
"""Those of the Spark session of this process, of which there is one at a time."""
