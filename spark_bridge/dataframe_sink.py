"""Results of a dataflow as a Spark DataFrame.

Batches become Arrow IPC streams in Ray's object store. The executors' JVMs read them, without pandas or Python workers.
While a job runs, each worker stores its captured batches on its own node. A *lease* keeps Ray objects alive as long as
Spark can read them.

Leases are needed because a DataFrame of Ray objects has only the objects' names. Ray frees an object with its last
Python reference, and a later Spark action then fails. References in the Python DataFrame would not be enough, since
derived DataFrames, joins and temporary views outlive it. All of them share the RDD in the driver's JVM. So a lease
lasts until a weak reference shows that the JVM has garbage-collected the RDD. The JVM collects garbage only when its
heap is full, so after many leases the bridge requests a collection.
"""

import gc
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidewheel.host.extras import check_extra
from tidewheel.host.ray_internals import owner_address
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.jvm import dataframe_of_rdd, driver_jvm, rdd_of_objects

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from ray import ObjectRef

    from tidewheel.connectors.object_blocks.stored_blocks import StoredBlock

_logger = logging.getLogger(__name__)

BYTES_BETWEEN_COLLECTIONS = 256 * 2**20
LEASES_BETWEEN_COLLECTIONS = 200
"""After so many leases, the bridge asks the JVM to collect garbage."""


def to_spark(
    spark: "SparkSession",
    source: Any,
    *,
    schema: "pa.Schema | None" = None,
    time: str | None = "time",
) -> "DataFrame":
    """Read ``source`` to its end; return a DataFrame of its rows.

    Each worker of a running Ray job makes partitions of ``job.captured(name)`` on its node; rows of other sources pass
    this process. Rows stay in Ray's object store, owned by this process, until the session ends. The next ``to_spark``
    frees them earlier if the JVM has garbage-collected the DataFrame and all derived DataFrames. A DataFrame has no
    order of rows; the column ``time`` keeps it.

    Args:
        spark: a session of ``tidewheel.spark_bridge.session``. For any other session, such as ``local[*]``, rows pass
            its driver, which is this process.
        source: an iterable of messages with ``.time`` and ``.batch``, such as ``job.captured(name)``; or a
            subscription, read until its topic ends, or any object whose ``epochs()`` yields epochs with ``.time`` and
            ``.batches``. A batch is an Arrow table or record batch, or a list of dicts.
        schema: the schema of the rows. It is needed if there is no batch, or if batches are lists of dicts and the
            first does not show all types.
        time: the name of an added last column with the time of each row, a 64-bit integer; None adds no column.

    Raises:
        BridgeError: batches differ in schema or have types that Spark cannot read; there is neither a batch nor a
            ``schema``; two columns, or a column and ``time``, have the same name apart from case; a time is not a
            64-bit integer; or a worker makes no block for two minutes.
    """
    check_extra("spark", "to_spark()", BridgeError)
    from tidewheel.connectors.object_blocks.record_tables import RecordTables
    from tidewheel.connectors.object_blocks.stored_blocks import known_columns, messages, put_block, stored_blocks
    from tidewheel.spark_bridge.arrow_blocks import is_on_ray
    from tidewheel.spark_bridge.arrow_streams import block_stream
    from tidewheel.spark_bridge.driver_rows import created, note
    from tidewheel.spark_bridge.spark_types import SPARK

    rows = RecordTables(SPARK, schema, time)
    if not is_on_ray(spark):
        note(spark)
        return created(spark, list(rows.tables(messages(source, SPARK))), known_columns(rows))
    blocks = stored_blocks(source, rows, block_stream)
    columns = known_columns(rows)
    return _read(spark, blocks or [put_block([columns.empty_table()], block_stream)], columns)


def _read(spark: "SparkSession", put: "list[StoredBlock]", schema: "pa.Schema") -> "DataFrame":
    from tidewheel.spark_bridge.spark_types import spark_schema

    blocks = [block for block, _ in put]
    rdd = rdd_of_objects(spark, [block.binary() for block in blocks], list(map(owner_address, blocks)))
    LEASES.hold(driver_jvm(spark), rdd, blocks, sum(size for _, size in put))
    return dataframe_of_rdd(spark, rdd, spark_schema(schema).json())


@dataclass(frozen=True, slots=True)
class _Lease:
    rdd: Any  # a java.lang.ref.WeakReference
    references: "tuple[ObjectRef[bytes], ...]"


class BlockLeases:
    """The leases of one Spark driver: they keep Ray objects alive as long as Spark can read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: list[_Lease] = []
        self._collected: Any = None
        """The java.lang.ref.ReferenceQueue to which the JVM adds the references to collected RDDs."""
        self._new_leases = 0
        self._new_bytes = 0

    def __len__(self) -> int:
        return len(self._leases)

    def hold(self, jvm: Any, rdd: Any, references: "Sequence[ObjectRef[bytes]]", size: int) -> None:
        """Keep ``references`` until the JVM has collected ``rdd``; drop expired leases.

        Args:
            jvm: the driver's JVM.
            rdd: the RDD that reads the blocks.
            references: the blocks.
            size: their size in bytes.
        """
        with self._lock:
            if self._collected is None:
                self._collected = jvm.java.lang.ref.ReferenceQueue()
            self._leases.append(_Lease(jvm.java.lang.ref.WeakReference(rdd, self._collected), tuple(references)))
            self._new_leases += 1
            self._new_bytes += size
            is_much = self._new_leases > LEASES_BETWEEN_COLLECTIONS or self._new_bytes > BYTES_BETWEEN_COLLECTIONS
            if is_much:
                self._new_leases = self._new_bytes = 0
        if is_much:
            gc.collect()  # releases Python's references to the JVM's objects
            jvm.System.gc()
        self.prune(look=is_much)

    def prune(self, *, look: bool = False) -> None:
        """Drop the leases of RDDs that the JVM has collected.

        Args:
            look: True to look also for collected RDDs that are not in the JVM's queue yet.
        """
        with self._lock:
            leases, collected = list(self._leases), self._collected
        # Leases are checked only when the queue is not empty: a call for each of thousands of leases takes long.
        if collected is None or (collected.poll() is None and not look):
            return
        while collected.poll() is not None:
            pass
        expired = {id(lease) for lease in leases if lease.rdd.refersTo(None)}
        with self._lock:
            self._leases = [lease for lease in self._leases if id(lease) not in expired]
        _logger.debug("dropped the blocks of %d DataFrame(s)", len(expired))

    def clear(self) -> None:
        """Drop all leases, since Spark has stopped."""
        with self._lock:
            self._leases.clear()
            self._collected = None


LEASES = BlockLeases()
"""The leases of this process's Spark session; there is one session at a time."""
