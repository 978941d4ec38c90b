"""The driver's end of the link from the workers of one dataflow: it receives their statuses as they send them."""

import threading
import time

from tidewheel.runtime.engines.ray_workers import Hosted, RayWorkers
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.transport.socket_link import SocketReceiver

_LOOK_S = 1.0
_END_TIMEOUT_S = 10.0


class WorkerNews:
    """Receives the statuses on a thread of its own, and passes each on at once.

    Args:
        job: takes the statuses; fails if something arrives that cannot be read.
        workers: the workers that run the job.
        receiver: receives what the workers send to the driver; closed with this.
    """

    def __init__(self, job: Hosted, workers: RayWorkers, receiver: SocketReceiver[Envelope]) -> None:
        self._job = job
        self._workers = workers
        self._receiver = receiver
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"tidewheel-news-{job.name}", daemon=True)

    def start(self, by: float) -> None:
        """Wait until all workers are connected, until ``by`` on the monotonic clock; then pass on what they send.

        Raises:
            PeerLost: a worker has not connected in time.
        """
        self._receiver.meet(range(len(self._workers.actors)), max(0.0, by - time.monotonic()))
        self._thread.start()

    def close(self) -> None:
        """Pass on nothing more, and stop listening; from any thread. Idempotent."""
        self._is_closed = True
        self._receiver.wake()
        if self._thread.ident is None:
            self._receiver.close()
        elif self._thread is not threading.current_thread():
            self._thread.join(_END_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while not self._is_closed:
                for envelope in self._receiver.receive(_LOOK_S):
                    if envelope.status is not None:
                        self._job.take(envelope.sender, envelope.status)
        except Exception as error:  # noqa: BLE001 - the thread must not end in silence
            reason = f"job {self._job.name!r}: the driver cannot read what its workers send any more: {error!r}"
            self._workers.fail(self._job, JobError(reason))
        finally:
            self._receiver.close()
