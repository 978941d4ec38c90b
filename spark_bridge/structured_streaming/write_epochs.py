"""The completed epochs of a topic as a folder of Parquet files that Structured Streaming reads live."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.subscribers.subscribing import find_topic, subscribe
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import WriterIdentity
from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
from tidewheel.spark_bridge.structured_streaming.epoch_sink import EpochSink, GroupLimits
from tidewheel.spark_bridge.structured_streaming.epoch_writer import EpochWriter

if TYPE_CHECKING:
    import pyarrow as pa

FILE_BYTES: Final = 16 * 2**20
MAX_DELAY_S: Final = 1.0
_FIRST_TICK: Final = 1


def write_epochs(  # noqa: PLR0913 - what can be said of a folder, by name
    topic: str,
    path: str | os.PathLike[str],
    format: Literal["parquet"] = "parquet",  # noqa: A002 - as in Spark
    *,
    checkpoint: str | os.PathLike[str],
    schema: "pa.Schema | None" = None,
    time: str | None = None,
    file_bytes: int = FILE_BYTES,
    max_delay_s: float = MAX_DELAY_S,
    timeout: float | None = 10.0,
) -> EpochWriter:
    """Write each completed epoch of a topic with exactly-once delivery to a folder, which Spark reads live.

    Files appear in one step and never change; each has one or more whole epochs, so that a reader sees all of an epoch
    or nothing of it: ``spark.readStream.schema(schema).parquet(path)``; ``spark.read.parquet(path).schema`` says which
    once there is a file. Durations become microseconds. An epoch is acknowledged once its file is on the disk. Whoever
    calls this again with the same ``checkpoint``, after a crash, an error, or `close`, goes on behind the last epoch
    that is there, so each is there once, also over restarts of the job that publishes with the same log. Files may be
    removed once they are read, by Spark's ``cleanSource`` as well.

    Small epochs are put together before they appear, in a file of ``file_bytes`` or what comes within ``max_delay_s``:
    later, Spark would read merged files as new rows, and miss the files that are gone. It runs on a thread of this
    process and needs no Spark. The memory it takes is that of ``file_bytes``, or of the largest epoch.

    Args:
        topic: its name. Batches are Arrow tables, or lists of dicts.
        path: a folder on a local disk, made if need be, with nothing else in it: object stores cannot rename a file in
            one step.
        format: of the files.
        checkpoint: a folder of this writer's own, on a local disk, made if need be: it has the name of its durable
            subscription, and what is committed. It may be in ``path`` if its name begins with a dot or an underscore.
        schema: of the rows; needed for lists of dicts whose types do not show in the first epoch that has rows.
        time: the name of a column (64-bit integer) to add with the epoch of each row.
        file_bytes: how large the rows of a file are, in memory, when it is written at once. A larger epoch is one file.
        max_delay_s: how long a complete epoch waits for others, in seconds; with 0 each is a file of its own.
        timeout: how long to wait until the topic exists, in seconds; None waits for ever.

    Raises:
        BridgeError: the topic is best effort, another writer is at the folder or its checkpoint, the checkpoint is that
            of something else, or the folder has files of others or of another schema.
        UnknownTopic: nobody published the topic in time.
        DeliveryError: there is no Ray cluster, or the log has no longer what comes next.
    """
    _check(format, file_bytes, max_delay_s)
    place, saved = _folders(path, checkpoint)
    info = LOCAL_CATALOG.lookup(topic) or find_topic(topic, timeout)
    if info.delivery != "exactly_once":
        raise BridgeError(
            f"topic {topic!r} of job {info.job!r} is best effort, so what comes while nobody writes is lost for good: "
            "publish it with delivery='exactly_once', log=..."
        )
    with ExitStack() as undo:
        folder = EpochFolder(WriterIdentity.new(topic, place, format, time), saved)
        undo.callback(folder.close)
        subscription = subscribe(
            topic,
            timeout=timeout,
            name=folder.identity.subscription,
            ack="manual",
            # If the subscription was ended, or given up, whoever goes on has to hear of what is no longer kept.
            start=_FIRST_TICK if folder.record.file else "earliest",
        )
        undo.callback(subscription.close)
        sink = EpochSink(folder, subscription.domain, schema, GroupLimits(file_bytes, max_delay_s))
        writer = EpochWriter(subscription, folder, sink)
        undo.pop_all()
    return writer


def _check(format: object, file_bytes: object, max_delay_s: object) -> None:  # noqa: A002 - as in Spark
    if format != "parquet":
        raise BridgeError(f"format is 'parquet', not {format!r}")
    if isinstance(file_bytes, bool) or not isinstance(file_bytes, int) or file_bytes < 1:
        raise BridgeError(f"file_bytes is a number of bytes above 0, not {file_bytes!r}")
    if isinstance(max_delay_s, bool) or not isinstance(max_delay_s, int | float) or not max_delay_s >= 0:
        raise BridgeError(f"max_delay_s is a number of seconds, not {max_delay_s!r}")


def _folders(path: str | os.PathLike[str], checkpoint: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return both folders as they really are, links followed, so that what is one folder is so by any name."""
    place, saved = _local("path", path), _local("checkpoint", checkpoint)
    if saved == place or (saved.is_relative_to(place) and not saved.relative_to(place).parts[0].startswith((".", "_"))):
        raise BridgeError(
            f"the checkpoint {saved} is where Spark looks for epochs ({place}). Use a folder elsewhere, or one in it "
            "whose name begins with a dot or an underscore"
        )
    if place.is_relative_to(saved):
        raise BridgeError(f"the path {place} is in the checkpoint {saved}, which is to have nothing else in it")
    return place, saved


def _local(name: str, folder: str | os.PathLike[str]) -> Path:
    text = os.fsdecode(os.fspath(folder))
    if not text or "\0" in text or "://" in text or text.startswith("file:"):
        raise BridgeError(f"{name} is a folder on a local disk, such as '/data/epochs', not {text!r}")
    return Path(text).expanduser().resolve()
