"""The writer of a topic's complete epochs to a folder of Parquet files that Structured Streaming reads live."""

import atexit
import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from tidewheel.progress import TidewheelError
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.messages.events import Batch, Epoch
from tidewheel.pubsub.subscribers.subscribing import find_topic, subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.pubsub.subscribers.subscription_options import Durable
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.storage.store_url import local_path

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
    from tidewheel.spark_bridge.structured_streaming.epoch_groups import EpochGroups, EpochWriterStatistics

_LOG = logging.getLogger(__name__)

FILE_BYTES: Final = 16 * 2**20
MAX_DELAY_S: Final = 1.0
_FIRST_TICK: Final = 1
_LOOK_EVERY_S: Final = 0.25
"""The seconds that the thread waits for an epoch before it checks whether to stop."""


class EpochWriter:
    """Writes the epochs of a topic to a folder, on a thread, until the topic ends or the writer is closed.

    The end of its ``with`` block closes the writer, and raises its error. Without a block, it runs until the process
    ends.

    Attributes:
        subscription: the name of the durable subscription, which ``tw.end_subscription`` ends.
    """

    def __init__(self, subscription: Subscription, folder: "EpochFolder", groups: "EpochGroups") -> None:
        self.topic = folder.identity.topic
        self.path = folder.identity.path
        self.subscription = folder.identity.subscription
        self._subscription = subscription
        self._folder = folder
        self._groups = groups
        self._stop = threading.Event()
        self._is_complete = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"tidewheel-write-{self.topic}", daemon=True)
        atexit.register(self.close)
        self._thread.start()

    @property
    def schema(self) -> "pa.Schema | None":
        """The schema of the files; None until it is known."""
        return self._groups.schema

    @property
    def has_ended(self) -> bool:
        """True if writing has finished: the topic has ended, or the writer was closed or has failed."""
        return not self._thread.is_alive()

    def statistics(self) -> "EpochWriterStatistics":
        """Return this writer's counts so far."""
        return self._groups.statistics

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the topic has ended, and all its epochs are in the folder.

        Args:
            timeout_s: in seconds; None waits until the topic ends.

        Raises:
            BridgeError: an epoch does not fit earlier epochs, the folder cannot be written to, or the writer was
                closed.
            DeliveryError: the topic has failed; earlier epochs are written.
            TimeoutError: the topic has not ended in time.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(
                f"topic {self.topic!r} has not ended within {timeout_s:g} s, and is written to {self.path}"
            )
        if self._error is not None:
            raise self._error
        if not self._is_complete:
            raise BridgeError(f"the writer of topic {self.topic!r} to {self.path} was closed before the topic ended")

    def close(self) -> None:
        """Write the complete epochs that have arrived, and stop; thread-safe, idempotent.

        A later writer with the same checkpoint receives all other epochs again.
        """
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None and self._error is not None:
            raise self._error

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._is_complete = self._write()
        except Exception as error:  # noqa: BLE001 - no other code would report it
            self._error = error
            if not isinstance(error, TidewheelError):
                self._error = BridgeError(f"topic {self.topic!r} cannot be written to {self.path}: {error}")
                self._error.__cause__ = error
            _LOG.error("topic %r is not written to %s any more: %s", self.topic, self.path, self._error)
        finally:
            self._folder.close()
            atexit.unregister(self.close)

    def _write(self) -> bool:
        with self._subscription:
            try:
                while not self._stop.is_set():
                    try:
                        epoch = self._next()
                    except TimeoutError:
                        self._acknowledge(self._groups.look(time.monotonic()))
                        continue
                    if epoch is None:
                        return True
                    if epoch.ends:  # they are not written
                        self._subscription.acknowledge(Epoch(epoch.time, (), epoch.ends))
                    self._acknowledge(self._groups.receive(epoch, time.monotonic()))
                return False
            finally:
                self._acknowledge(self._groups.flush())

    def _next(self) -> Epoch | None:
        due_in_s = self._groups.due_in_s(time.monotonic())
        wait_s = _LOOK_EVERY_S if due_in_s is None else min(due_in_s, _LOOK_EVERY_S)
        return next(self._subscription.epochs(timeout_s=wait_s), None)

    def _acknowledge(self, batches: Sequence[Batch]) -> None:
        if batches:
            self._subscription.acknowledge(Epoch(batches[-1].time, tuple(batches)))


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
    timeout_s: float | None = 10.0,
) -> EpochWriter:
    """Write each complete epoch of a topic with exactly-once delivery to a folder, which Spark can read live.

    A file appears in one step, never changes, and has complete epochs. So readers, such as
    ``spark.readStream.schema(schema).parquet(path)``, see an epoch as a whole. Once there is a file,
    ``spark.read.parquet(path).schema`` is the schema. Durations become microseconds. An epoch is acknowledged once its
    file is on disk.

    After a crash, an error, or `close`, call this again with the same ``checkpoint``: the writer continues after the
    last written epoch. So each epoch is written once, even if the publishing job restarts with the same log. Files may
    be removed after reading, also by Spark's ``cleanSource``.

    Small epochs share a file, which is written once they have ``file_bytes``, or after ``max_delay_s``. Files cannot be
    merged later, since Spark would read the merged file as new rows. The writer runs on a thread of this process,
    without Spark, and needs memory for ``file_bytes``, or for the largest epoch.

    Args:
        topic: its name; batches are Arrow tables, or lists of dicts.
        path: a folder for these files only; created if missing. It must be on a local disk, since object stores cannot
            rename a file in one step.
        format: the format of the files.
        checkpoint: a folder for this writer only, on a local disk; created if missing. It has the name of the durable
            subscription, and the commits. It may be in ``path`` if its name begins with a dot or an underscore.
        schema: the schema of the rows. You need it if batches are lists of dicts and the first epoch with rows does not
            show all types.
        time: the name of an added column with the epoch of each row, a 64-bit integer.
        file_bytes: the size (in memory) at which a file is written immediately; a larger epoch is one file.
        max_delay_s: the seconds for which a complete epoch waits for others; with 0 each epoch is one file.
        timeout_s: how long to wait for the topic to exist, in seconds; None waits forever.

    Raises:
        BridgeError: the topic is best effort, another writer uses the folder or its checkpoint, the checkpoint belongs
            to something else, or the folder has other files or another schema.
        UnknownTopic: no job has published the topic within ``timeout_s``.
        DeliveryError: there is no Ray cluster, or the log no longer has the next epoch.
    """
    from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import WriterIdentity
    from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
    from tidewheel.spark_bridge.structured_streaming.epoch_groups import EpochGroups

    _check(format, file_bytes, max_delay_s)
    place, saved = _folders(path, checkpoint)
    _check_topic(topic, timeout_s)
    with ExitStack() as undo:
        folder = EpochFolder(WriterIdentity.new(topic, place, format, time), saved)
        undo.callback(folder.close)
        subscription = subscribe(
            topic,
            timeout_s=timeout_s,
            durable=Durable(folder.identity.subscription, ack="manual"),
            # If the subscription was ended or given up, a later writer needs to know which messages are gone.
            start="earliest" if folder.is_new else _FIRST_TICK,
        )
        undo.callback(subscription.close)
        groups = EpochGroups(folder, subscription.domain, schema, file_bytes, max_delay_s)
        writer = EpochWriter(subscription, folder, groups)
        undo.pop_all()
    return writer


def _check_topic(topic: str, timeout_s: float | None) -> None:
    info = LOCAL_CATALOG.lookup(topic) or find_topic(topic, timeout_s)
    if info.delivery != "exactly_once":
        raise BridgeError(
            f"topic {topic!r} of job {info.job!r} is best effort, so it does not keep epochs while no writer runs: "
            "publish it with log=tw.Log(place)"
        )


def _check(format: object, file_bytes: object, max_delay_s: object) -> None:  # noqa: A002 - as in Spark
    if format != "parquet":
        raise BridgeError(f"format is 'parquet', not {format!r}")
    if isinstance(file_bytes, bool) or not isinstance(file_bytes, int) or file_bytes < 1:
        raise BridgeError(f"file_bytes is a number of bytes above 0, not {file_bytes!r}")
    if isinstance(max_delay_s, bool) or not isinstance(max_delay_s, int | float) or not max_delay_s >= 0:
        raise BridgeError(f"max_delay_s is a number of seconds, not {max_delay_s!r}")


def _folders(path: str | os.PathLike[str], checkpoint: str | os.PathLike[str]) -> tuple[Path, Path]:
    place, saved = _local("path", path), _local("checkpoint", checkpoint)
    if saved == place or (saved.is_relative_to(place) and not saved.relative_to(place).parts[0].startswith((".", "_"))):
        raise BridgeError(
            f"the checkpoint {saved} is where Spark looks for epochs ({place}). Use a folder elsewhere, or one in it "
            "whose name begins with a dot or an underscore"
        )
    if place.is_relative_to(saved):
        raise BridgeError(f"the path {place} is in the checkpoint {saved}, which is to have nothing else in it")
    return place, saved


def _local(name: str, folder: object) -> Path:
    return local_path(folder, f"write_epochs: {name}", BridgeError).expanduser().resolve()
