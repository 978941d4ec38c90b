"""Files to read, on this machine or in an object store: how to find and open them.

An ETag identifies the version of a file. A reader never mixes two versions: if a file is replaced or still grows,
reading it raises an error.
"""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob, has_magic
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, unquote

from tidewheel.progress import TidewheelError
from tidewheel.storage.epoch_manifests import MANIFESTS, SUFFIX, read_manifest
from tidewheel.storage.folder import open_store
from tidewheel.storage.store_url import absolute, is_place, is_url

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.storage.object_store import RemoteFolder

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a pattern such as ``logs/*.txt``, a folder, a URL of one of these, or a list of them."""

TIMEOUT_S = 60.0
"""How many seconds an object store may take to answer."""


class FileChanged(TidewheelError):  # noqa: N818 - the name says what has happened
    """A file has changed since it was found.

    Attributes:
        path: the file's path or URL.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """One version of a file.

    Attributes:
        path: an absolute path or a URL.
        version: its ETag; for a local file, its inode number, time and size.
        size: in bytes.
    """

    path: str
    version: str
    size: int

    @property
    def name(self) -> str:
        """A text from which `named` makes an equal object.

        >>> StoredFile("/tides/a.csv", "1f-2e", 3).name
        '/tides/a.csv?version=1f-2e&size=3'
        >>> StoredFile.named("/tides/a.csv?version=1f-2e&size=3")
        StoredFile(path='/tides/a.csv', version='1f-2e', size=3)
        """
        return f"{self.path}?version={quote(self.version)}&size={self.size}"

    @classmethod
    def named(cls, name: str) -> "StoredFile":
        """Return the file that a `name` stands for."""
        path, _, about = name.rpartition("?version=")
        version, _, size = about.partition("&size=")
        return cls(path, unquote(version), int(size))


class FileFinder:
    """Finds the files that some paths stand for, with a new search in each call.

    ``**`` in a pattern matches any folders. A folder stands for all files below it, except names that begin with "." or
    "_". If `write_files` writes to a folder in an object store, only the files of committed epochs count.

    Args:
        what: the subject of messages.

    Raises:
        Exception: made by ``error``: a path is not valid.
    """

    def __init__(self, what: str, paths: Paths, error: Callable[[str], Exception]) -> None:
        given = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str | os.PathLike) else [paths]
        if not given:
            raise error(f"{what}: there is no path to read from")
        for path in given:
            if not is_place(path):
                raise error(f"{what}: a path is a text or a pathlib.Path, not {path!r:.200}")
        self._what = what
        self._error = error
        self.places = tuple(absolute(path, "path", error) for path in given)
        self._manifests: dict[tuple[str, str], frozenset[str]] = {}
        """The files that manifests list, by the manifest's path and version; they never change."""

    def find(self) -> list[StoredFile]:
        """Return the files that exist now, each once, sorted by path.

        Raises:
            OSError: a store or a folder cannot be read.
        """
        return sorted({file for place in self.places for file in self._at(place)})

    def find_each(self) -> list[StoredFile]:
        """Return the files that exist now, as `find` does, but raise if a path has none.

        Raises:
            OSError: a store or a folder cannot be read.
            Exception: made by ``error``: a path has no files.
        """
        found: set[StoredFile] = set()
        for place in self.places:
            files = set(self._at(place))
            if not files:
                raise self._error(f"{self._what}: there are no files at {place!r}")
            found |= files
        return sorted(found)

    def _at(self, place: str) -> Iterator[StoredFile]:
        return self._remote(place) if is_url(place) else _local(Path(place))

    def _remote(self, url: str) -> Iterator[StoredFile]:
        bucket, wanted = _bucket_and_name(url)
        is_pattern = has_magic(wanted)
        known = re.split(r"[*?[]", wanted, maxsplit=1)[0].rpartition("/")[0] if is_pattern else wanted
        store = open_store(bucket, TIMEOUT_S, OSError)
        found = [
            StoredFile(f"{bucket}/{name}", version, size)
            for name, (version, size) in store.versions(known)
            if not is_pattern or _matches(name.split("/"), wanted.split("/"))
        ]
        committed = None if is_pattern else self._committed(url, found, store)
        for file in found:
            below = file.path.removeprefix(url).strip("/")
            if is_pattern or (not _is_hidden(below) and (committed is None or below in committed)):
                yield file

    def _committed(self, base: str, found: list[StoredFile], store: "RemoteFolder") -> set[str] | None:
        """Return the names, relative to ``base``, that manifests list; None if the folder has no epochs."""
        of_epochs = [file for file in found if file.path.startswith(f"{base}/{MANIFESTS}")]
        manifests = [file for file in of_epochs if file.path.endswith(SUFFIX)]
        kept = {}
        for file in manifests:
            key = file.path, file.version
            kept[key] = self._manifests.get(key) or frozenset(read_manifest(file.path, _whole(file, store)).files)
        self._manifests = {key: names for key, names in self._manifests.items() if not key[0].startswith(base)} | kept
        return {name for names in kept.values() for name in names} if of_epochs else None


@contextmanager
def opened(file: StoredFile) -> "Iterator[pa.NativeFile]":
    """Open a file for the ``with`` block, and check its version before and after. All errors name the path.

    Raises:
        FileChanged: the file has another version.
        FileNotFoundError: the file no longer exists.
    """
    import pyarrow as pa

    remote = is_url(file.path)
    try:
        reader: pa.NativeFile = pa.PythonFile(_RemoteFile(file), "r") if remote else pa.OSFile(file.path)
        with reader:
            _check(file)
            yield reader
            _check(file)
    except FileChanged:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{file.path} is gone since it was found: leave files where they are until they have been read"
        ) from error
    except Exception as error:
        _check(file)  # the change explains what was found in it
        error.add_note(f"This is file {file.path}.")
        raise


def version_of(path: str) -> str:
    """Return the version of a local file; raise FileNotFoundError if it does not exist."""
    status = os.stat(path)  # noqa: PTH116 - a path as text
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def modified_s(path: str) -> float:
    """Return when a local file was last changed, in seconds of its file system's clock; `inf` if it does not exist."""
    with suppress(FileNotFoundError):
        return os.stat(path).st_mtime  # noqa: PTH116 - a path as text
    return inf


def changed(path: str) -> FileChanged:
    """Return the error for a file that changed after it was found, before or while it is read."""
    return FileChanged(
        f"{path} was replaced or written to since it was found, so some of its records may be in the results already. "
        "Move it away and begin anew, without the snapshots. Then write each file under a new name of its own, and "
        "move it into the folder when it is whole",
        path,
    )


def replaced(path: str) -> FileChanged:
    """Return the error for a file that has changed after it was read."""
    return FileChanged(
        f"{path} has another content than the file of that name that was read before, and each file is read once. Give "
        "it a name of its own, and the job goes on; or begin anew, without the snapshots, to read all files again",
        path,
    )


def _check(file: StoredFile) -> None:
    if is_url(file.path):  # each read has checked it
        return
    with suppress(FileNotFoundError):  # an open file stays readable
        if version_of(file.path) != file.version:
            raise changed(file.path)


class _RemoteFile(io.RawIOBase):
    """One version of a file in an object store, read in ranges."""

    def __init__(self, file: StoredFile) -> None:
        super().__init__()
        self._file = file
        bucket, self._name = _bucket_and_name(file.path)
        self._store: RemoteFolder = open_store(bucket, TIMEOUT_S, OSError)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._file.size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(self._file.size - self._at, 0)
        wanted = left if size < 0 else min(size, left)
        if not wanted:
            return b""
        data = self._store.read_version(self._name, self._file.version, self._at, wanted)
        if data is None:
            raise changed(self._file.path)
        self._at += len(data)
        return data


def _whole(file: StoredFile, store: "RemoteFolder") -> bytes:
    data = store.read_version(_bucket_and_name(file.path)[1], file.version, 0, file.size)
    if data is None:
        raise changed(file.path)
    return data


def _bucket_and_name(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    bucket, _, name = rest.partition("/")
    return f"{scheme}://{bucket}", name


def _is_hidden(below: str) -> bool:
    return any(part.startswith((".", "_")) for part in below.split("/"))


def _matches(name: list[str], pattern: list[str]) -> bool:
    """Tell whether the parts of a name match those of a pattern, by the rules of `glob.glob` for files.

    >>> _matches(["logs", "a", "b", "c.txt"], ["logs", "**", "*.txt"]), _matches(["logs", "a", "b"], ["logs", "*"])
    (True, False)
    >>> _matches(["c.txt"], ["**", "[a-c].*"]), _matches([".hidden"], ["*"])
    (True, False)
    """
    if not pattern:
        return not name
    if pattern[0] == "**":
        goes_on = bool(name) and not name[0].startswith(".") and _matches(name[1:], pattern)
        return goes_on or _matches(name, pattern[1:])
    if not name or (name[0].startswith(".") and not pattern[0].startswith(".")):
        return False
    return fnmatchcase(name[0], pattern[0]) and _matches(name[1:], pattern[1:])


def _local(place: Path) -> Iterator[StoredFile]:
    for path in _local_paths(place):
        with suppress(FileNotFoundError):  # removed meanwhile
            yield StoredFile(path, version_of(path), os.stat(path).st_size)  # noqa: PTH116 - a path as text


def _local_paths(place: Path) -> Iterator[str]:
    if has_magic(str(place)) and not place.exists():
        for name in glob(str(place), recursive=True):  # noqa: PTH207 - Path.glob takes no absolute patterns
            if os.path.isfile(name):  # noqa: PTH113 - a path as text
                yield name
    elif place.is_dir():
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            for name in names:
                if not name.startswith((".", "_")):
                    yield os.path.join(folder, name)  # noqa: PTH118 - a path as text
    elif place.exists():
        yield str(place)
