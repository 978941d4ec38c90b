"""Durable objects in a folder of this machine or of a shared file system.

obstore's local store does not call fsync, so this module writes the files itself. It writes a file under a temporary
name, syncs it, links or renames it, and syncs the directory. A reader sees a whole file or none.
"""

import errno
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tidewheel.storage.files import FILES, FULL, check_private, make_directory, write_all

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class LocalFolder:
    """A directory as a `Folder`.

    A call that fails raises ``error(message)``; the message has the path, the reason and the remedy.

    Args:
        path: absolute. The directory is created with the first object.
        error: makes the exception from a message.
    """

    def __init__(self, path: Path, error: Callable[[str], Exception]) -> None:
        self._path = path
        self._error = error

    def write(self, name: str, frames: Sequence[memoryview]) -> None:
        """Put an object without copying its frames."""
        with self._clear_errors(name, "written"), self._written(name, frames) as (temporary, path):
            temporary.rename(path)
            FILES.sync_directory(path.parent)

    def put_new(self, name: str, data: bytes) -> bool:
        with self._clear_errors(name, "written"), self._written(name, [memoryview(data)]) as (temporary, path):
            try:
                path.hardlink_to(temporary)
            except FileExistsError:
                return False
            except FileNotFoundError:  # a later owner has removed the temporary file: the number is taken
                return False
            FILES.sync_directory(path.parent)
        return True

    def read(self, name: str, size: int = 0) -> bytes | None:
        with self._clear_errors(name, "read"):
            if self._path.is_dir():
                check_private(self._path, "what a job saves", self._error)
            try:
                return (self._path / name).read_bytes()
            except FileNotFoundError:
                return None

    def sizes(self, prefix: str) -> Mapping[str, int]:
        found = {}
        with (
            self._clear_errors(prefix, "listed"),
            suppress(FileNotFoundError),
            os.scandir(self._path / prefix) as files,
        ):
            for file in files:
                with suppress(FileNotFoundError):  # another process has removed it
                    found[prefix + file.name] = file.stat().st_size
        return found

    def remove(self, names: Sequence[str]) -> None:
        with self._clear_errors(f"{len(names)} objects", "removed"):
            for name in names:
                (self._path / name).unlink(missing_ok=True)
            for directory in {(self._path / name).parent for name in names}:
                with suppress(FileNotFoundError):
                    FILES.sync_directory(directory)

    def remove_empty_folders(self) -> None:
        with self._clear_errors("", "removed"):
            for folder in (*self._path.iterdir(), self._path):
                with suppress(OSError):  # it is a file, or it has files
                    folder.rmdir()

    @contextmanager
    def _written(self, name: str, frames: Sequence[memoryview]) -> Iterator[tuple[Path, Path]]:
        path = self._path / name
        make_directory(FILES, path.parent)
        check_private(self._path, "what a job saves", self._error)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
        try:
            descriptor = FILES.create(temporary)
            try:
                write_all(FILES, descriptor, [frame for frame in frames if frame.nbytes], 0)
                FILES.sync(descriptor)
            finally:
                os.close(descriptor)
            yield temporary, path
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    @contextmanager
    def _clear_errors(self, name: str, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(f"{self._path}/{name} is not {done}: {_explained(error)}") from error


def _explained(error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in FULL:
        return f"the disk or the quota is full ({reason}). Make room, keep fewer snapshots, or use another folder"
    if error.errno in _REFUSED:
        return f"this user may not do that ({reason}). Give user {os.geteuid()} access, or use another folder"
    return f"{reason}. See whether the disk works and the folder is still mounted, or use another folder"
