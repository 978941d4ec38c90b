"""The thread that reads a topic and writes its epochs, and the handle of whoever started it."""

import atexit
import logging
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

from tidewheel.progress import TidewheelError
from tidewheel.pubsub.messages.events import Epoch
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
from tidewheel.spark_bridge.structured_streaming.epoch_sink import EpochSink, EpochWriterStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    import pyarrow as pa

    from tidewheel.pubsub.messages.events import Batch

_LOG = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 0.25
"""How long the thread waits for an epoch before it looks whether it is to stop."""


class EpochWriter:
    """Writes the epochs of a topic to a folder, on a thread of its own, until the topic ends or this is closed.

    Use it in a ``with`` block, which closes it, and raises what has gone wrong. One that nobody closes goes on until
    the process ends.

    Args:
        subscription: to the topic, exactly once, with ``ack="manual"``.
        folder: where the epochs go.
        sink: what becomes of them.
    """

    def __init__(self, subscription: Subscription, folder: EpochFolder, sink: EpochSink) -> None:
        self._subscription = subscription
        self._folder = folder
        self._sink = sink
        self._stop = threading.Event()
        self._is_complete = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"tidewheel-write-{self.topic}", daemon=True)
        atexit.register(self.close)
        self._thread.start()

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._folder.identity.topic

    @property
    def path(self) -> str:
        """The folder of the files."""
        return self._folder.identity.path

    @property
    def subscription(self) -> str:
        """The name of the durable subscription; ``tw.end_subscription`` ends it when nobody will go on writing."""
        return self._folder.identity.subscription

    @property
    def schema(self) -> "pa.Schema | None":
        """The schema of the files; None as long as neither ``schema=`` nor an epoch has told it."""
        return self._sink.schema

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be written: the topic has ended, this was closed, or has failed."""
        return not self._thread.is_alive()

    def statistics(self) -> EpochWriterStatistics:
        """Return counts of what was committed so far, from the start of this writer."""
        return self._sink.statistics

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the topic has ended, and all of it is in the folder.

        Args:
            timeout: in seconds; None waits as long as the topic lives.

        Raises:
            BridgeError: an epoch does not go with those before, the folder cannot be written to, or this was closed.
            DeliveryError: the topic has failed; what came before is written.
            TimeoutError: the topic has not ended in time.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(
                f"topic {self.topic!r} has not ended within {timeout:g} s, and is written to {self.path}"
            )
        if self._error is not None:
            raise self._error
        if not self._is_complete:
            raise BridgeError(f"what writes topic {self.topic!r} to {self.path} was closed before the topic ended")

    def close(self) -> None:
        """Write the whole epochs that have come, and stop; from any thread. Called again, it does nothing.

        What was not written comes again to who goes on with the same checkpoint.
        """
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is None and self._error is not None:
            raise self._error

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._is_complete = self._write()
        except TidewheelError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - nobody would be told otherwise
            failure = BridgeError(f"topic {self.topic!r} cannot be written to {self.path}: {error}")
            failure.__cause__ = error
            self._fail(failure)
        finally:
            self._folder.close()
            atexit.unregister(self.close)

    def _fail(self, error: Exception) -> None:
        self._error = error
        _LOG.error("topic %r is not written to %s any more: %s", self.topic, self.path, error)

    def _write(self) -> bool:
        """Write until this is closed, or the topic ends; return whether it has ended."""
        with self._subscription:
            try:
                while not self._stop.is_set():
                    try:
                        epoch = self._next()
                    except TimeoutError:
                        self._acknowledge(self._sink.look(time.monotonic()))
                        continue
                    if epoch is None:
                        return True
                    if epoch.ends:  # they are not written
                        self._subscription.acknowledge(Epoch(epoch.time, (), epoch.ends))
                    self._acknowledge(self._sink.receive(epoch, time.monotonic()))
                return False
            finally:
                self._acknowledge(self._sink.flush())

    def _next(self) -> Epoch | None:
        """Return the next epoch, None at the end of the topic; TimeoutError says that it is time to look around."""
        due_in_s = self._sink.due_in_s(time.monotonic())
        wait_s = _LOOK_EVERY_S if due_in_s is None else min(due_in_s, _LOOK_EVERY_S)
        return next(self._subscription.epochs(timeout=wait_s), None)

    def _acknowledge(self, batches: "Sequence[Batch]") -> None:
        """Have all of them acknowledged together."""
        if batches:
            self._subscription.acknowledge(Epoch(batches[-1].time, tuple(batches)))
