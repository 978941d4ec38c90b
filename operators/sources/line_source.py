"""A source over the lines of text files."""

import bz2
import gzip
import lzma
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, Literal

from tidewheel.operators.sources.found_files import Paths, found_files
from tidewheel.operators.sources.record_source import epoch_of
from tidewheel.operators.stream_base import check_positive

_COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class LineSource:
    r"""A source over lines of text, without their line ends; worker ``i`` reads files ``i``, ``i + workers`` and so on.

    Files whose names end in .gz, .bz2 or .xz are decompressed. All nodes have to see the files.

    Args:
        paths: a path, a pattern such as ``"logs/*.txt"``, a folder, or a list of such. Which files there are is looked
            up at once; they are read in the order of their names.
        batch_size: how many lines a batch has, at most.
        epoch_every: ``"file"`` makes each file an epoch, numbered from 0. A number makes so many batches of a file an
            epoch; then all files are read at a time, since each begins with epoch 0. None puts all in epoch 0.
        encoding: of the text.
        errors: what to do with bytes that are no text, as for `open`; by default the job fails.

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

    def partitions(self, worker: int, workers: int) -> list[Iterator[tuple[int, list[str]]]]:
        """Return this worker's partitions: one, or one for each of its files."""
        numbers = range(worker, len(self.files), workers)
        if isinstance(self._epoch_every, int):
            return [self._batches(number) for number in numbers]
        return [self._one_after_the_other(numbers)]

    def _one_after_the_other(self, numbers: range) -> Iterator[tuple[int, list[str]]]:
        for number in numbers:
            yield from self._batches(number)

    def _batches(self, number: int) -> Iterator[tuple[int, list[str]]]:
        path = self.files[number]
        with self._opened(path) as file:
            for batch in count():
                try:
                    lines = list(islice(file, self._batch_size))
                except Exception as error:  # each way to compress has errors of its own
                    error.add_note(f"This is file {path}, in batch {batch} of {self._batch_size} lines.")
                    raise
                if not lines:
                    return
                yield epoch_of(self._epoch_every, batch, number), [line.rstrip("\n") for line in lines]

    def _opened(self, path: Path) -> IO[str]:
        opener: Any = _COMPRESSED.get(path.suffix, open)
        opened: IO[str] = opener(path, "rt", encoding=self._encoding, errors=self._errors)
        return opened


def check_epoch_every(source: str, epoch_every: object) -> None:
    """Raise GraphError unless this is "file", a whole number above 0, or None."""
    if epoch_every not in ("file", None):
        check_positive(source, 'epoch_every, unless "file" or None,', epoch_every)
