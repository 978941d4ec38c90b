"""A source of the lines of text files, and what all sources of files share: paths and epochs."""

import bz2
import gzip
import lzma
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tidewheel.operators.base.stream_base import check_positive
from tidewheel.operators.sources.contract import Fetched, Partition
from tidewheel.operators.sources.inline_source import InlineSource, fetched_behind, share_names, share_of
from tidewheel.operators.sources.record_source import epoch_of
from tidewheel.progress import GraphError
from tidewheel.storage.store_url import local_path

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a pattern such as ``logs/*.txt``, a folder, or a list of such."""


_COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class LineSource(InlineSource[str]):
    r"""A source of lines of text, without line ends; worker ``i`` reads files ``i``, ``i + workers`` and so on.

    Files whose names end in .gz, .bz2 or .xz are decompressed. All nodes must see the files.

    Args:
        paths: a path, a pattern such as ``"logs/*.txt"``, a folder, or a list of such, looked up at once. Files are
            read in the order of their names.
        batch_size: the greatest number of lines in a batch.
        epoch_every: ``"file"`` makes each file an epoch, numbered from 0. A number makes that many batches of a file an
            epoch; then all files, which begin with epoch 0, are read at a time. None puts all in epoch 0.
        encoding: the encoding of the text.
        errors: the treatment of undecodable bytes, as for `open`; by default the job fails.

    Raises:
        GraphError: there are no such files, or an argument is wrong.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("words")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "text").write_text("to be\nor not\n")
    ...     _ = flow.source("lines", LineSource(folder)).map(str.split).capture("words")
    ...     with tw.run(flow, engine="local") as job:
    ...         job.wait()
    ...         job.captured("words")
    [Captured(time=0, batch=[['to', 'be'], ['or', 'not']])]
    """

    def __init__(
        self,
        paths: Paths,
        *,
        batch_size: int = 10_000,
        epoch_every: int | Literal["file"] | None = None,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        check_positive("LineSource", "batch_size", batch_size)
        check_epoch_every("LineSource", epoch_every)
        self.files = found_files("LineSource", paths)
        self._batch_size = batch_size
        self._epoch_every = epoch_every
        self._encoding = encoding
        self._errors = errors

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition for each file, or for each worker's share of them."""
        return list(range(len(self.files))) if isinstance(self._epoch_every, int) else share_names(workers)

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[str]]:
        """Read a partition; the position is a number of batches."""
        if isinstance(partition, int):
            return fetched_behind(position, self._batches(partition))
        worker, workers = share_of(partition)
        return fetched_behind(position, self._one_after_the_other(range(worker, len(self.files), workers)))

    def _one_after_the_other(self, numbers: range) -> Iterator[tuple[int, list[str]]]:
        for number in numbers:
            yield from self._batches(number)

    def _batches(self, number: int) -> Iterator[tuple[int, list[str]]]:
        path = self.files[number]
        opener: Any = _COMPRESSED.get(path.suffix, open)
        with opener(path, "rt", encoding=self._encoding, errors=self._errors) as file:
            for batch in count():
                try:
                    lines = list(islice(file, self._batch_size))
                except Exception as error:  # each way to compress has errors of its own
                    error.add_note(f"This is file {path}, in batch {batch} of {self._batch_size} lines.")
                    raise
                if not lines:
                    return
                yield epoch_of(self._epoch_every, batch, number), [line.rstrip("\n") for line in lines]


def check_epoch_every(source: str, epoch_every: object) -> None:
    """Raise GraphError unless ``epoch_every`` is "file", a whole number above 0, or None."""
    if epoch_every not in ("file", None):
        check_positive(source, 'epoch_every, unless "file" or None,', epoch_every)


def found_files(source: str, paths: Paths) -> tuple[Path, ...]:
    """Return the files of ``paths``, each once, sorted, with absolute paths.

    ``**`` in a pattern matches any folders. A folder stands for all files below it, except names that begin with "." or
    "_", as unfinished ones do.

    Raises:
        GraphError: a path does not exist, or a pattern or folder has no files.
    """
    given = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str | os.PathLike) else [paths]
    if not given:
        raise GraphError(f"{source}: there is no path to read from")
    found: set[Path] = set()
    for path in given:
        files = set(_files(local_path(path, f"{source}: a path", GraphError)))
        if not files:
            raise GraphError(f"{source}: there are no files at {os.fspath(path)!r} (looked in {Path.cwd()})")
        found |= files
    return tuple(sorted(found))


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add the file's path to any error that is raised within the block."""
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
