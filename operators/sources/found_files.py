"""The files of a source, in one order that all workers know, and their names in errors."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import TypeAlias

from tidewheel.progress import GraphError

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a pattern such as ``logs/*.txt``, a folder, or a list of such."""


def found_files(source: str, paths: Paths) -> tuple[Path, ...]:
    """Return the files that ``paths`` stand for, each once, sorted, with absolute paths.

    ``**`` in a pattern stands for any folders. Of a folder these are all files in it and in its folders; those whose
    names begin with "." or "_", as what is unfinished does, are left out, with what is in them.

    Raises:
        GraphError: a path does not exist, or a pattern or folder has no files.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise GraphError(f"{source}: there is no path to read from")
    found: set[Path] = set()
    for path in given:
        if not isinstance(path, str | os.PathLike):
            raise GraphError(f"{source}: a path is a text or a pathlib.Path, not {path!r}")
        files = set(_files(Path(path)))
        if not files:
            raise GraphError(f"{source}: there are no files at {os.fspath(path)!r} (looked in {Path.cwd()})")
        found |= files
    return tuple(sorted(found))


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add the file's path to what is raised within the block, whatever reads it."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This is file {path}.")
        raise


def _files(path: Path) -> Iterable[Path]:
    if has_magic(str(path)) and not path.exists():
        for name in glob(str(path), recursive=True):  # noqa: PTH207 - Path.glob takes no absolute patterns
            if Path(name).is_file():
                yield Path(name).absolute()
    elif path.is_dir():
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            for name in names:
                if not name.startswith((".", "_")):
                    yield (Path(folder) / name).absolute()
    elif path.exists():
        yield path.absolute()
