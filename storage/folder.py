"""The interface of a folder of objects, on disk or in a store, and how to open one."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tidewheel.storage.local_folder import LocalFolder
from tidewheel.storage.store_url import is_url

if TYPE_CHECKING:
    from tidewheel.storage.object_store import RemoteFolder


class Objects(Protocol):
    """Objects by name, below one URL; thread-safe."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Put a small object unless the name exists; return whether it was put."""

    def read(self, name: str, size: int = 0) -> bytes | None:
        """Return the bytes of an object, None if it does not exist.

        If its expected ``size`` is large, it is read in pieces.
        """

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Return the sizes in bytes of the objects in a subfolder, such as ``log/``; "" stands for all objects."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects; all of them must exist."""


class Folder(Objects, Protocol):
    """Objects of any size."""

    def write(self, name: str, frames: Sequence[memoryview]) -> None:
        """Put an object made of frames. A reader sees the whole object or none."""

    def remove_empty_folders(self) -> None:
        """Remove the folder and its subfolders, if they have no objects."""


def open_folder(url: str, timeout_s: float, error: Callable[[str], Exception]) -> Folder:
    """Open the folder at ``url``, a path or URL as `store_url.absolute` returns it.

    ``error`` makes the exceptions of all later calls, from a message.
    """
    return open_store(url, timeout_s, error) if is_url(url) else LocalFolder(Path(url), error)


def open_store(url: str, timeout_s: float, error: Callable[[str], Exception]) -> "RemoteFolder":
    from tidewheel.storage.object_store import RemoteFolder  # importing it takes long

    return RemoteFolder(url, timeout_s, error)
