"""The reader of one job's telemetry, from any process of the cluster."""

from collections.abc import Iterator
from typing import Self

from tidewheel.pubsub.catalog.catalog import TELEMETRY
from tidewheel.pubsub.errors import DeliveryError, NoCluster, UnknownTopic
from tidewheel.pubsub.messages.events import Epoch
from tidewheel.pubsub.subscribers.subscribing import subscribe
from tidewheel.pubsub.subscribers.view import Follower, View

_AGAIN_WITHIN_S = 10.0
_MOST_IGNORED = 5


class TelemetryReader:
    """Follows one job: iteration yields a `View` once a second until the job has ended.

    If the reader falls behind, or a publisher dies, it subscribes again and continues with a full document. One thread
    iterates; any thread may call `close`.

    Args:
        timeout_s: how long to wait for the job, in seconds; None waits forever.

    Raises:
        UnknownTopic, NoCluster, DeliveryError: as for `tidewheel.subscribe`; during iteration, the reader cannot follow
            the job any more.
    """

    def __init__(self, job: str, *, timeout_s: float | None = 10.0) -> None:
        self.job = job
        self._is_closed = False
        self._follower = Follower()
        self._ignored = 0
        self._has_ended = False
        self._connect(timeout_s)

    def _connect(self, timeout_s: float | None) -> None:
        self._subscription = subscribe(f"{TELEMETRY}{self.job}", timeout_s=timeout_s)
        self._epochs: Iterator[Epoch] = self._subscription.epochs()
        if self._is_closed:  # another thread has closed it since
            self._subscription.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> View:
        while True:
            try:
                epoch = next(self._epochs)
            except DeliveryError as lost:
                if self._is_closed:
                    raise StopIteration from None
                self._connect_again(lost)
                continue
            for record in epoch.records:
                view = self._follower.receive(epoch.time, record)
                if view is not None:
                    self._ignored, self._has_ended = 0, view.has_ended
                    return view
            self._ignored += 1
            if self._ignored > _MOST_IGNORED:  # the job was not told that this reader needs a whole document
                self._connect_again(DeliveryError(f"job {self.job!r} sends no whole document"))

    def _connect_again(self, lost: DeliveryError) -> None:
        self._subscription.close()
        self._ignored = 0
        try:
            self._connect(_AGAIN_WITHIN_S)
        except (UnknownTopic, NoCluster):
            raise (StopIteration if self._has_ended else lost) from None

    def close(self) -> None:
        """Leave the job, and end iteration; idempotent."""
        self._is_closed = True
        self._subscription.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
