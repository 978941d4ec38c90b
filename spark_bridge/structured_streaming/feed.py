"""A streaming DataFrame that feeds an input of a running job.

This program may be killed at any moment and started again, and writes each epoch once::

    orders = spark.readStream.schema(SCHEMA).parquet("orders")
    flow = tw.Dataflow("revenue")
    totals = flow.input("orders").group_by("customer").aggregate(total=("price", "sum"))
    totals.write_files("revenue", overwrite=True).probe("written")
    with tw.run(flow, workers=2) as job:
        feeding = feed(job.input("orders"), orders, checkpoint="feed", commit_after=job.probe("written"))
        feeding.wait()
        job.wait()
"""

import os
from collections.abc import Mapping
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

from tidewheel.host.extras import check_extra
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.fed_job import FedJob
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.storage.store_url import is_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidewheel.spark_bridge.structured_streaming.feed_query import Progress, StreamingFeed


_fed: "WeakSet[InputHandle]" = WeakSet()


def feed(
    input: InputHandle,
    streaming_df: "DataFrame",
    *,
    checkpoint: str | os.PathLike[str],
    trigger: Mapping[str, Any] | None = None,
    output_mode: Literal["append", "update", "complete"] = "append",
    query_name: str | None = None,
    commit_after: "Progress | None" = None,
) -> "StreamingFeed":
    """Start a query of Structured Streaming that feeds an input; each micro-batch is an epoch, with its id as the time.

    Batches are Arrow tables. A micro-batch is sent completely or not at all. It is sent only once even if Spark replays
    it, since its id is compared with the time of ``input``. If Spark skips ids, no frontier waits for them. Spark
    delays the next micro-batch while the dataflow is behind (`RuntimeConfig.bytes_in_flight`, ``epochs_ahead``).

    If the query fails, the job fails, too. If the job fails or ends, the query stops. The end of the query closes the
    input. Rows go from Spark's executors through Ray's object store to this process, and then to the workers; if Spark
    does not run on Ray, they go through its driver. In a job with snapshots, Spark commits a micro-batch once a
    snapshot has it. So nothing is missing after a return to a snapshot, or in a later run with the same folder and
    checkpoint. If that snapshot is lost, the query and the job fail.

    Args:
        input: a handle of the job, at the least time or at its time in a snapshot. The query owns the handle from now
            on; to send other records, call `InputHandle.clone` before.
        streaming_df: the streaming DataFrame, such as ``spark.readStream.schema(...).parquet("orders")``. A micro-batch
            must fit into the memory of this process; without Spark's ``maxFilesPerTrigger`` or ``maxOffsetsPerTrigger``
            the first micro-batch has all existing rows.
        checkpoint: the directory of Spark's commits; a restarted program continues there, with the next id. It belongs
            to one query.
        trigger: when micro-batches begin, as for ``DataStreamWriter.trigger``. ``{"availableNow": True}`` reads all
            existing rows and ends; ``{"processingTime": "10 seconds"}`` begins a micro-batch every 10 seconds. By
            default the next micro-batch begins as soon as possible.
        output_mode: as for ``DataStreamWriter.outputMode``, for a query that aggregates.
        query_name: as for ``DataStreamWriter.queryName``.
        commit_after: ``job.topic(name)`` of a topic with exactly-once delivery, or a probe, such as one after
            `Stream.write_files`. Spark then commits a micro-batch only when its epoch is durable in the topic, or
            complete at the probe. In a job with snapshots, a probe after a sink advances with each snapshot. By default
            Spark commits micro-batches once they are sent, and unprocessed records are lost with the program. With
            ``commit_after``, Spark sends uncommitted micro-batches again with the same id; a deterministic query sends
            the same rows. To keep operators' state, use snapshots.

    Returns:
        The running feed, with the methods `wait` and `stop`. As a context manager, it stops at the end of the block.

    Raises:
        BridgeError: an argument is wrong: the DataFrame is not a streaming one, is of Spark Connect, or has types
            without Arrow equivalent; ``input`` is closed, fed already, not at the least time, or its times are not
            integers; or ``commit_after`` is a topic without a log.
        JobError: the job of ``commit_after`` has ended, or its probe's times are not integers.
        pyspark.errors.PySparkException: Spark cannot run such a query.
    """
    check_extra("spark", "feed()", BridgeError)
    from tidewheel.spark_bridge.arrow_blocks import arrow_schema, is_on_ray
    from tidewheel.spark_bridge.driver_rows import is_remote, note
    from tidewheel.spark_bridge.structured_streaming.feed_query import StreamingFeed

    _check_input(input)
    _check_dataframe(streaming_df, input.name)
    if is_remote(streaming_df.sparkSession):
        raise BridgeError(
            f"the DataFrame that is to feed input {input.name!r} is of Spark Connect, whose server would run the "
            "micro-batches, away from the job. Use a session whose driver is this process, such as "
            "SparkSession.builder.master(...)"
        )
    arrow_schema(streaming_df, input.name)
    folder = _checkpoint_folder(checkpoint, input.name)
    _check_progress(commit_after)
    writer = streaming_df.writeStream.outputMode(output_mode).option("checkpointLocation", folder)
    writer = writer if trigger is None else writer.trigger(**_checked_trigger(trigger))
    writer = writer if query_name is None else writer.queryName(query_name)
    if not is_on_ray(streaming_df.sparkSession):
        note(streaming_df.sparkSession)
    _fed.add(input)
    try:
        return StreamingFeed(input, writer, folder, commit_after)
    except BaseException:
        _fed.discard(input)
        raise


def _check_input(handle: object) -> None:
    if not isinstance(handle, InputHandle):
        raise BridgeError(f"feed() takes an input of a running job, job.input(name), not {handle!r}")
    if handle in _fed and not handle.is_closed:
        raise BridgeError(f"input {handle.name!r} is fed by a query already: clone() a handle beforehand for another")
    if handle.is_closed:
        raise BridgeError(f"input {handle.name!r} is closed ({handle!r}), so no query can feed it")
    if not isinstance(handle.domain, IntegerDomain):
        raise BridgeError(
            f"the times of input {handle.name!r} are such as {handle.domain.minimum()!r}, and ids of micro-batches are "
            "integers: feed an input of a dataflow with integers as times"
        )
    job = FedJob(handle)
    try:
        job.check_saves()
    except JobError as error:
        raise BridgeError(f"input {handle.name!r} cannot be fed from here: {error}") from error
    if job.goes_on:
        return
    if handle.position.batches:
        raise BridgeError(
            f"this handle of input {handle.name!r} has sent {handle.position.batches} batches, and it is for "
            "micro-batches alone: clone() it, and feed the clone"
        )
    if handle.time != handle.domain.minimum():
        raise BridgeError(
            f"input {handle.name!r} is at time {handle.time!r} already, and micro-batches with lower ids would be "
            f"taken for delivered: feed() needs a handle at time {handle.domain.minimum()!r}"
        )


def _check_progress(commit_after: object) -> None:
    if commit_after is None:
        return
    wait_until = getattr(commit_after, "wait_until", None)
    if not callable(wait_until):
        raise BridgeError(f"commit_after is a probe or topic of the job, job.probe(name), not {commit_after!r}")
    try:
        wait_until(0, 0)
    except TimeoutError:
        return
    except DeliveryError as error:
        raise BridgeError(f"commit_after is no topic whose epochs get durable: {error}") from error


def _check_dataframe(df: object, name: str) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        raise BridgeError(
            f"the source of input {name!r} is a {type(df).__module__}.{type(df).__qualname__}, "
            "not a streaming DataFrame"
        )
    if not df.isStreaming:
        raise BridgeError(
            f"the DataFrame that is to feed input {name!r} is not streaming. Read it with spark.readStream, or make it "
            "a source of the dataflow with from_spark()"
        )


def _checkpoint_folder(checkpoint: object, name: str) -> str:
    if not is_place(checkpoint):
        raise BridgeError(
            f"feed() of input {name!r} takes a directory as checkpoint=, not {short(checkpoint)}: without one a "
            "program that is started again would read everything again"
        )
    return os.fspath(checkpoint)


def _checked_trigger(trigger: Mapping[str, Any]) -> dict[str, Any]:
    known = ("availableNow", "once", "processingTime")
    if not isinstance(trigger, Mapping) or len(trigger) != 1 or not set(trigger) <= set(known):
        raise BridgeError(
            f"trigger={trigger!r} is no mapping with one of {', '.join(known)}, as in DataStreamWriter.trigger, like "
            "{'availableNow': True} or {'processingTime': '10 seconds'}"
        )
    return dict(trigger)
