"""The heartbeat of a folder's owner: an object that the owner's process rewrites as a sign of life to other jobs."""

import logging
import threading
from contextlib import suppress

from tidewheel.runtime.snapshots.entries import Owner
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.runtime.snapshots.names import heartbeat_name
from tidewheel.storage.folder import Folder

INTERVAL_S = 1.0
SILENCE_S = 5.0
"""An owner counts as dead if its heartbeat has not changed for this long, in seconds."""
_LOOK_S = 0.25

_logger = logging.getLogger(__name__)


class Heartbeat:
    """A daemon thread that rewrites an owner's heartbeat until `stop`."""

    def __init__(self, folder: Folder, owner: Owner) -> None:
        self._folder = folder
        self._name = heartbeat_name(owner.incarnation)
        self._identity = owner.identity
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="tidewheel snapshots heartbeat", daemon=True)
        self._thread.start()

    def stop(self, within_s: float = SILENCE_S) -> None:
        self._stopped.set()
        self._thread.join(within_s)

    def remove(self) -> None:
        """Remove the object of a stopped heartbeat; if this fails, a later owner removes it."""
        with suppress(SnapshotError):
            self._folder.remove([self._name])

    def _beat(self) -> None:
        beats = failures = 0
        while True:
            beats += 1
            try:
                self._folder.write(self._name, [memoryview(f"{self._identity} {beats}".encode())])
                failures = 0
            except SnapshotError as error:
                failures += 1
                if failures == 1:
                    _logger.warning("another job may take the folder over, as the heartbeat does not arrive: %s", error)
            if self._stopped.wait(INTERVAL_S):
                return


def beats(folder: Folder, owner: Owner) -> bool:
    """Return True as soon as an owner's heartbeat changes, False after `SILENCE_S` seconds without a change.

    This counts unchanged readings instead of time, since this process may itself have been suspended.
    """
    name = heartbeat_name(owner.incarnation)
    first = folder.read(name)
    pause = threading.Event()
    for _ in range(round(SILENCE_S / _LOOK_S)):
        pause.wait(_LOOK_S)
        now = folder.read(name)
        if now is not None and now != first:
            return True
    return False
