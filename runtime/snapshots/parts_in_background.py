"""The thread that writes one worker's parts, while the worker goes on."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.runtime.snapshots.part_writer import PartWriter
from tidewheel.runtime.state.worker_part import WorkerPart


class PartsInBackground:
    """Writes parts one after the other on a thread.

    Args:
        wake: called on that thread after each part.
    """

    def __init__(self, writer: PartWriter, wake: Callable[[], None]) -> None:
        self._writer = writer
        self._wake = wake
        self._thread = ThreadPoolExecutor(1, "tidewheel-snapshots")
        self.written: deque[WrittenPart] = deque()

    def write(self, part: WorkerPart) -> None:
        self._thread.submit(self._writer.write, part).add_done_callback(self._report)

    def _report(self, done: Future[WrittenPart]) -> None:
        if not done.cancelled():
            self.written.append(done.result())
            self._wake()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
