"""Results of a dataflow as a Spark DataFrame.

Batches become Arrow IPC streams in Ray's object store, and the executors' JVMs read them, without pandas or Python
workers. While a job runs, its workers store their captured batches, each on its own node. A *lease* keeps Ray objects
alive as long as Spark can read them.

Leases are needed because a DataFrame of Ray objects knows only their names. Ray frees an object with its last Python
reference, and a later Spark action then fails. References in the Python DataFrame would not be enough, since derived
DataFrames, joins and temporary views outlive it. All these share the RDD in the driver's JVM. So a lease lasts until
the JVM has collected that RDD, which a weak reference tells. The JVM collects only when its own heap is full, so after
many leases the bridge asks it to.
"""

import gc
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidewheel.host.extras import check_extra
from tidewheel.host.ray_internals import owner_address
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.messages.events import Batch
from tidewheel.runtime.engines.captured import CapturedOnWorkers
from tidewheel.runtime.errors import JobError
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.jvm import dataframe_of_rdd, driver_jvm, rdd_of_objects

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from ray import ObjectRef, ObjectRefGenerator

    from tidewheel.runtime.engines.captured import Kept
    from tidewheel.spark_bridge.record_tables import RecordTables

_logger = logging.getLogger(__name__)

SILENCE_SECONDS = 120.0
"""The longest time in which a worker makes one block."""

BYTES_BETWEEN_COLLECTIONS = 256 * 2**20
LEASES_BETWEEN_COLLECTIONS = 200
"""After so much has been leased, the bridge asks the JVM to collect what no program can reach."""


def to_spark(
    spark: "SparkSession",
    source: Any,
    *,
    schema: "pa.Schema | None" = None,
    time: str | None = "time",
) -> "DataFrame":
    """Read ``source`` to its end; return a DataFrame of its rows.

    Rows of ``job.captured(name)`` of a running Ray job do not pass this process: each worker makes partitions on its
    node. Rows of other sources do pass it. They stay in Ray's object store, owned by this process, until the session
    ends. They are freed earlier, by the next ``to_spark``, if the JVM has collected the DataFrame and all derived ones.
    Rows have no order in a DataFrame; the column ``time`` keeps it.

    Args:
        spark: a session of ``tidewheel.spark_bridge.session``. For any other session, such as ``local[*]``, rows pass
            its driver, which is this process.
        source: an iterable of messages with ``.time`` and ``.batch``, such as ``job.captured(name)``; or a
            subscription, read until its topic ends, or any object whose ``epochs()`` yields epochs with ``.time`` and
            ``.batches``. A batch is an Arrow table or record batch, or a list of dicts.
        schema: the schema of the rows. It is needed if there is no batch, or if batches are lists of dicts and the
            first does not show all types.
        time: the name of an additional last column, which has the time of each row as a 64-bit integer; None for no
            such column.

    Raises:
        BridgeError: batches differ in schema or have types that Spark cannot read; there is neither a batch nor a
            ``schema``; two columns, or a column and ``time``, have the same name apart from case; a time is not a
            64-bit integer; or a worker makes no block for two minutes.
    """
    check_extra("spark", "to_spark()", BridgeError)
    from tidewheel.spark_bridge.arrow_blocks import is_on_ray
    from tidewheel.spark_bridge.arrow_streams import in_blocks, put_block
    from tidewheel.spark_bridge.driver_rows import created, note
    from tidewheel.spark_bridge.record_tables import RecordTables

    rows = RecordTables(schema, time)
    if not is_on_ray(spark):
        note(spark)
        return created(spark, list(rows.tables(_messages(source))), _columns(rows))
    blocks = _made_by_workers(source, rows) if isinstance(source, CapturedOnWorkers) else None
    if blocks is None:
        blocks = [put_block(tables) for tables in in_blocks(rows.tables(_messages(source)))]
    columns = _columns(rows)
    return _read(spark, blocks or [put_block([columns.empty_table()])], columns)


def _made_by_workers(captured: CapturedOnWorkers, rows: "RecordTables") -> "list[tuple[ObjectRef[bytes], int]] | None":
    """Let each worker make blocks of what it has captured, on its node; return them with their sizes, worker by worker.

    Afterwards ``rows`` knows the columns, if it did not and a batch tells them. Return None if the workers are gone.

    Raises:
        BridgeError: the batches cannot become one DataFrame.
    """
    import ray

    blocks: list[tuple[ObjectRef[bytes], int]] = []
    try:
        if rows.columns is None:
            told = [_last(_drained(made)) for made in captured.on_workers(_told_columns, rows.time)]
            rows.columns, rows.origin = next((one for one in told if one is not None), (None, rows.origin))
        if rows.columns is not None:
            for made in captured.on_workers(_blocks, rows.columns, rows.time, rows.origin):
                *parts, sizes = _drained(made)
                blocks += zip(parts, _last([sizes]), strict=True)
    except (JobError, ray.exceptions.RayActorError) as error:
        _logger.warning("rows for Spark pass the driver, as the workers that captured them are gone: %s", error)
        return None
    return blocks


def _told_columns(kept: "Kept", time: str | None) -> "Iterator[tuple[pa.Schema, str] | None]":
    from tidewheel.spark_bridge.record_tables import RecordTables

    rows = RecordTables(None, time)
    next(rows.tables(kept), None)
    yield None if rows.columns is None else (rows.columns, rows.origin)


def _blocks(kept: "Kept", columns: "pa.Schema", time: str | None, origin: str) -> Iterator[bytes | list[int]]:
    from tidewheel.spark_bridge.arrow_streams import block_stream, in_blocks
    from tidewheel.spark_bridge.record_tables import RecordTables

    sizes = []
    for tables in in_blocks(RecordTables(columns, time, origin).tables(kept)):
        stream = block_stream(tables)
        sizes.append(len(stream))
        yield stream
    yield sizes


def _drained(made: "ObjectRefGenerator") -> "list[ObjectRef[Any]]":
    import ray

    references: list[ObjectRef[Any]] = []
    while not made.is_finished():
        if not ray.wait([made], timeout=SILENCE_SECONDS, fetch_local=False)[0]:
            raise BridgeError(f"a worker has made no block of what it has captured for {SILENCE_SECONDS:.0f} s")
        try:
            references.append(next(made))
        except StopIteration:
            break
    return references


def _last(references: "Sequence[ObjectRef[Any]]") -> Any:
    import ray

    try:
        return ray.get(references[-1], timeout=SILENCE_SECONDS)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, TidewheelError) else error from None


def _columns(rows: "RecordTables") -> "pa.Schema":
    if rows.schema is None:
        raise BridgeError("there is no batch to take the columns of the DataFrame from: pass schema= to to_spark")
    return rows.schema


def _messages(source: Any) -> Iterator[tuple[Any, Any]]:
    items: Iterable[Any] = source.epochs() if callable(getattr(source, "epochs", None)) else source
    for item in items:
        if hasattr(item, "batches"):
            yield from ((item.time, batch.data if isinstance(batch, Batch) else batch) for batch in item.batches)
        elif hasattr(item, "batch"):
            yield item.time, item.batch
        else:
            raise BridgeError(
                f"to_spark was given a {type(item).__qualname__}, not a message with .time and .batch "
                "or an epoch with .time and .batches"
            )


def _read(spark: "SparkSession", put: "list[tuple[ObjectRef[bytes], int]]", schema: "pa.Schema") -> "DataFrame":
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
        """The java.lang.ref.ReferenceQueue in which the JVM puts what it has collected."""
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
            look: whether to look also for RDDs that the JVM has collected but not yet put into its queue.
        """
        with self._lock:
            leases, collected = list(self._leases), self._collected
        # Each lease is asked about only when there is news of one: a call takes long among thousands of leases.
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
"""The leases of the Spark session of this process, of which there is one at a time."""
