"""The rows of a DataFrame as blocks, which arrive as Arrow IPC streams.

Spark computes the partitions into its cache, in memory or on disk. Each worker fetches its blocks from the executors as
Ray objects, which it owns and frees after reading. So the object store holds only the blocks that workers read ahead,
and nothing passes the driver.

When the session ends, unread blocks are stored in Ray's object store for later jobs.
"""

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import ray
from ray import ObjectRef

from tidewheel.connectors.object_blocks.arrival import arrival
from tidewheel.operators.sources.contract import Pause
from tidewheel.spark_bridge import jvm
from tidewheel.spark_bridge.cached_rdd import CachedRdd
from tidewheel.spark_bridge.errors import BridgeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_logger = logging.getLogger(__name__)

BLOCKS_AHEAD = 1
"""The number of blocks that a reader asks for before it needs them."""

SILENCE_SECONDS = 60.0
"""A block that does not arrive within as many seconds counts as lost."""

RECOVERY_SECONDS = 60.0
"""An executor that has died must answer again within as many seconds."""

_RETRY_SECONDS = 0.5
_CALL_SITE = "callSite.short"
"""The thread's Spark property that Spark's pages show for its jobs."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class DataFrameBlocks:
    """The blocks of a DataFrame, in the order of its partitions: one for each partition if Spark runs on Ray.

    Attributes:
        rdd: the RDD that has or had the blocks in Spark's cache; without partitions if the blocks were never there.
        stored: the blocks as Ray objects; None while they are only in Spark's cache.
    """

    schema: pa.Schema
    rdd: CachedRdd = field(default_factory=CachedRdd)
    stored: tuple[ObjectRef[bytes], ...] | None = None
    is_read: bool = False

    def __len__(self) -> int:
        return len(self.rdd.holders if self.stored is None else self.stored)

    @property
    def places(self) -> tuple[str, ...]:
        """The Ray node of each block's executor; empty if unknown."""
        return self.rdd.places or ("",) * len(self)

    @property
    def advice(self) -> str:
        """The advice for a program that has lost a block, for messages."""
        if self.stored is not None:
            return "A block is lost with the Ray node or the driver that holds it: run from_spark again."
        return (
            "Spark has to run until a job has read what from_spark gave it: leave the block of session() after "
            "job.wait()."
        )

    def request(self, number: int) -> ObjectRef[bytes]:
        """Return a block as a Ray object, which may not have arrived yet.

        Raises:
            BridgeError: Spark has stopped.
        """
        self.is_read = True
        return self.rdd.request(number) if self.stored is None else self.stored[number]

    def read(self, numbers: Iterable[int]) -> Generator[Pause | tuple[int, bytes], None, None]:
        """Yield these blocks with their numbers, and a `Pause` while the next block has not arrived.

        Ray restarts a dead executor, which then lets Spark compute its partitions. Blocks are requested again only
        after the restart: with RayDP, two earlier calls would block the call that starts the executor.

        Raises:
            BridgeError: Spark has stopped, or no executor has answered for a while.
            ray.exceptions.RayError: a stored block is lost.
        """
        left, awaited, deadline = deque(numbers), deque[tuple[int, Any]](), 0.0
        while left or awaited:
            while left and len(awaited) <= BLOCKS_AHEAD:
                awaited.append((left[0], self.request(left.popleft())))
            try:
                block = yield from arrival(awaited[0][1], SILENCE_SECONDS)
            except ray.exceptions.RayError as error:
                if self.stored is not None:
                    raise
                _logger.info("asking for block %d again: %s", awaited[0][0], error)
                deadline = deadline or time.monotonic() + RECOVERY_SECONDS
                left.extendleft(number for number, _ in reversed(awaited))
                while awaited:
                    ray.cancel(awaited.pop()[1])
                yield from self._recovery(left[0], deadline, error)
            else:
                deadline = 0.0
                yield awaited.popleft()[0], block

    def _recovery(self, number: int, deadline: float, reason: Exception) -> Generator[Pause, None, None]:
        while (remaining := deadline - time.monotonic()) > 0:
            yield Pause(_RETRY_SECONDS)
            try:
                yield from arrival(self.rdd.probe(number), remaining)
            except ray.exceptions.RayError as error:
                reason = error
            else:
                return
        raise BridgeError(f"no executor of Spark has had it for {RECOVERY_SECONDS:.0f} s: {reason}") from reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form for a worker."""
        self.is_read = True
        return DataFrameBlocks, (self.schema, self.rdd, self.stored, True)

    def store(self) -> None:
        """Store all blocks in Ray's object store; Spark may then stop.

        Raises:
            BridgeError: Spark has stopped, or an executor has died or does not answer.
        """
        stored = tuple(map(self.rdd.request, range(len(self))))
        left = list(stored)
        while left:
            ready, left = ray.wait(left, num_returns=len(left), timeout=SILENCE_SECONDS, fetch_local=False)
            if left and not ready:
                raise BridgeError(f"{len(left)} of {len(stored)} blocks did not come for {SILENCE_SECONDS:.0f} s")
        # An object without a node is in this process: it is a small block, or an error.
        places = ray.experimental.get_object_locations(list(stored))
        try:
            ray.get([block for block in stored if not places[block]["node_ids"]])
        except ray.exceptions.RayError as error:
            raise BridgeError(f"Spark's executors could not return what they had computed: {error}") from error
        self.stored = stored


class CachedDataFrames:
    """This process's blocks in Spark's cache; they are dropped when no dataflow can read them any more."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, int], weakref.ref[DataFrameBlocks]] = {}
        """The blocks, by application and RDD number, since each application in this process counts RDDs from the
        beginning."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._cached)

    def add(self, df: "DataFrame", schema: pa.Schema) -> DataFrameBlocks:
        """Compute a DataFrame, which has partitions, and return its blocks.

        Raises:
            py4j.protocol.Py4JError: Spark could not compute the DataFrame; none of its rows stay in the cache.
        """
        self.prune(df)
        with _nothing_left_on_failure(df.sparkSession):
            blocks = DataFrameBlocks(schema, CachedRdd.described(jvm.cache_as_arrow(df)))
        with self._lock:
            self._cached[_application(df), blocks.rdd.number] = weakref.ref(blocks)
        return blocks

    def prune(self, df: "DataFrame") -> None:
        """Drop unused blocks from the cache; ``df`` is any DataFrame of the session."""
        with self._lock:
            dead = [key for key, blocks in self._cached.items() if blocks() is None]
        for key in dead:
            self._drop(df, key)

    def store(self, df: "DataFrame", blocks: DataFrameBlocks) -> None:
        """Store blocks, and drop them from Spark's cache; raise as `DataFrameBlocks.store` does."""
        try:
            blocks.store()
        finally:
            self._drop(df, (_application(df), blocks.rdd.number))

    def store_unread(self) -> None:
        """Store blocks that no job has read, since Spark is about to stop; failures are logged."""
        with self._lock:
            living = [blocks for reference in self._cached.values() if (blocks := reference()) is not None]
        for blocks in living:
            if blocks.is_read or blocks.stored is not None:
                continue
            try:
                blocks.store()
            except BridgeError as error:
                _logger.warning("a DataFrame of %d block(s) can be read no more: %s", len(blocks), error)

    def clear(self) -> None:
        """Forget all blocks, since Spark has stopped."""
        with self._lock:
            self._cached.clear()

    def _drop(self, df: "DataFrame", key: tuple[str, int]) -> None:
        application, number = key
        with self._lock:
            was_there = self._cached.pop(key, None) is not None
        if was_there and application == _application(df):
            jvm.drop_cached(df.sparkSession, number)


@contextmanager
def _nothing_left_on_failure(spark: "SparkSession") -> Iterator[None]:
    """If the ``with`` block raises, drop the RDDs that it has marked to be cached.

    RayDP returns the number of its RDD only after computing it, so RDDs are found by the call site of the thread.
    """
    context: Any = spark.sparkContext
    site = context.getLocalProperty(_CALL_SITE)
    ours = f"from_spark {uuid4().hex[:8]}"
    context.setLocalProperty(_CALL_SITE, ours)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # Spark has stopped
            jvm.drop_cached_at(spark, ours)
        raise
    finally:
        with suppress(Exception):
            context.setLocalProperty(_CALL_SITE, site)


def _application(df: "DataFrame") -> str:
    return str(df.sparkSession.sparkContext.applicationId)


CACHED = CachedDataFrames()
"""The cached blocks of this process's Spark session; there is one session at a time."""
