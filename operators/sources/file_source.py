"""A source of files, in folders and object stores: each file is read once, in one version.

A file is a partition whose name contains the version. So a replaced file would be another partition, which the source
refuses. Worker 0 lists the files, once or repeatedly.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidewheel.batches.batches import Batch
from tidewheel.host.retry import Retry
from tidewheel.operators.files.bad_lines import BadLine
from tidewheel.operators.files.file_readers import (
    FORMATS,
    ArrowReader,
    CsvReader,
    FileReader,
    JsonLinesReader,
    ParquetReader,
    TextReader,
    format_of,
)
from tidewheel.operators.files.schema_fit import SchemaFit
from tidewheel.operators.sources.contract import Fetched, Partition, Refused, Source
from tidewheel.progress import GraphError
from tidewheel.storage.store_url import is_url
from tidewheel.storage.stored_files import FileFinder, Paths, StoredFile, modified_s, replaced

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv as pa_csv

Format: TypeAlias = Literal["parquet", "csv", "jsonl", "arrow", "text"]


class FileSource(Source[Any]):
    r"""A source of files: Parquet, CSV, JSON lines, Arrow IPC or text, on this machine or in an object store.

    Each worker reads one file after the other, and each file belongs to one epoch. Records are rows of Arrow; from text
    files they are ``str``, and from JSON lines without ``schema`` the values of the lines. Files whose names end in
    .gz, .bz2, .zst, .lz4 or .xz are decompressed. All nodes must reach the files.

    A file that changes while it is read, or later, fails the job with `FileChanged`. In a watched folder of a file
    system, a file is read once it has not changed between two looks; move complete files into the folder.

    Args:
        paths: a path, a pattern such as ``"logs/**/*.txt"``, a folder, or a list of these; or URLs with ``s3://``,
            ``gs://``, ``az://`` or ``file://``. In folders, names that begin with "." or "_" are left out. If
            `Stream.write_files` writes to a folder, only complete epochs are read.
        format: ``"parquet"``, ``"csv"``, ``"jsonl"``, ``"arrow"`` or ``"text"``; by default by the suffix of the names.
        schema: the columns of all files. A missing column becomes null; a surplus column is left out. By default it is
            the schema of the first file, and a surplus column is an error. Types are converted if no value changes.
        columns: the names of the columns to read; None for all.
        watch_every_s: how often to look for new files, in seconds; with None, the source looks once and then ends.
        whole_files: whether a file belongs to one epoch. Otherwise an epoch may end after any batch of a file, as
            ``epoch_records=`` of `Dataflow.source` says.
        csv: options of CSV, such as its delimiter.
        encoding: the encoding of text files.
        errors: the treatment of text that cannot be decoded, as for `open`; by default the job fails.

    Raises:
        GraphError: there are no such files, the columns of the first file cannot be read, or an argument is wrong.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("fares")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "monday.csv").write_text("driver,fare\nann,5\nbob,7\n")
    ...     _ = Path(folder, "tuesday.csv").write_text("driver,fare\nann,2\n")
    ...     _ = flow.source("fares", FileSource(folder)).map(lambda row: row["fare"]).capture("fares")
    ...     with tw.run(flow, engine="local") as job:
    ...         job.wait()
    ...         [captured.batch for captured in job.captured("fares")]
    [[5, 7], [2]]
    """

    at_a_time = 1
    retry = Retry(attempts=1)  # an object store is asked again below

    def __init__(  # noqa: PLR0913 - each says something of its own, and most may be left out
        self,
        paths: Paths,
        format: Format | None = None,  # noqa: A002 - as write_files has it
        *,
        schema: "pa.Schema | None" = None,
        columns: Sequence[str] | None = None,
        watch_every_s: float | None = None,
        whole_files: bool = True,
        csv: "pa_csv.ParseOptions | None" = None,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        if isinstance(columns, str):
            raise GraphError(f"FileSource: columns is a list of names, not {columns!r}")
        if watch_every_s is not None and (not isinstance(watch_every_s, int | float) or not watch_every_s > 0):
            raise GraphError(
                f"FileSource: watch_every_s is a number of seconds above 0, or None, not {watch_every_s!r}"
            )
        self.look_every_s = watch_every_s
        self._whole_files = whole_files
        self._finder = FileFinder("FileSource", paths, GraphError)
        self._read: dict[str, str] = {}
        """The versions of the listed files, by path."""
        self._looked: dict[str, str] = {}
        """The versions at the last look, by path, of files that are not listed yet, since they may still grow."""
        found = self._first_look()
        self.format = format or self._told_format(found)
        if self.format not in FORMATS:
            raise GraphError(f"FileSource: format is one of {', '.join(map(repr, FORMATS))}, not {format!r}")
        if self.format == "text":
            _check_text(encoding, schema, columns)
        self._may_refuse = self.format not in ("parquet", "arrow")
        fit = None if self.format == "text" else self._fit(found, schema, columns, csv)
        self.schema = None if fit is None else fit.schema
        self._reader = self._make_reader(fit, columns, csv, encoding, errors)

    # ------------------------------------------------------------------ what is read

    def _first_look(self) -> list[StoredFile]:
        try:
            return self._finder.find_each() if self.look_every_s is None else self._finder.find()
        except OSError as error:
            raise GraphError(f"FileSource: {error}") from None

    def _told_format(self, found: list[StoredFile]) -> str:
        told = {format_of(path) for path in [file.path for file in found] or self._finder.places}
        if len(told) > 1 or None in told:
            names = ", ".join(sorted({file.path for file in found} or set(self._finder.places))[:3])
            raise GraphError(f"FileSource: names such as {names} do not tell one format: give format=, or a pattern")
        (one,) = told
        assert one is not None, "it is told"
        return one

    def _fit(
        self,
        found: list[StoredFile],
        schema: "pa.Schema | None",
        columns: Sequence[str] | None,
        csv: "pa_csv.ParseOptions | None",
    ) -> SchemaFit | None:
        if schema is not None:
            missing = [name for name in columns or () if name not in schema.names]
            if missing:
                raise GraphError(f"FileSource: columns {missing} are not in schema=, which has {schema.names}")
            return SchemaFit(schema if columns is None else _chosen(schema, columns), leaves_out=True)
        if self.format == "jsonl":
            if columns is not None:
                raise GraphError("FileSource: JSON lines have columns only with schema=: give it instead of columns=")
            return None
        if not found:
            raise GraphError(
                f"FileSource: there is no file at {', '.join(self._finder.places)} yet whose columns could be looked "
                "up: give schema="
            )
        try:
            own = self._make_reader(None, columns, csv, "utf-8", "strict").schema_of(found[0])
        except Exception as error:
            raise GraphError(f"FileSource: {found[0].path} is not read as {self.format}: {error}") from error
        assert own is not None, "it has columns"
        missing = [name for name in columns or () if name.partition(".")[0] not in own.names]
        if missing:
            raise GraphError(f"FileSource: {found[0].path} has no columns {missing}")
        return SchemaFit(own, leaves_out=columns is not None)

    def _make_reader(
        self,
        fit: SchemaFit | None,
        columns: Sequence[str] | None,
        csv: "pa_csv.ParseOptions | None",
        encoding: str,
        errors: str,
    ) -> FileReader:
        names = None if columns is None else tuple(dict.fromkeys(columns))
        match self.format:
            case "parquet":
                return ParquetReader(names, fit)
            case "csv":
                return CsvReader(csv, names, fit)
            case "arrow":
                return ArrowReader(names, fit)
            case "jsonl":
                return JsonLinesReader(fit)
        return TextReader(encoding, errors)

    # ------------------------------------------------------------------ the contract

    def partitions(self) -> list[Partition]:
        """Return the names of the files that exist now.

        Raises:
            FileChanged: a file that was listed before was replaced.
        """
        found = self._finder.find()
        for file in found:
            if self._read.get(file.path, file.version) != file.version:
                raise replaced(file.path)
        whole = [file for file in found if self._is_whole(file)]
        self._looked = {file.path: file.version for file in found}
        self._read = {file.path: file.version for file in whole}
        return [file.name for file in whole]

    def _is_whole(self, file: StoredFile) -> bool:
        """Tell whether a file counts as complete.

        It does if it has not changed for a while, if its store creates files in one step, or if the source looks once.
        """
        if self.look_every_s is None or is_url(file.path) or file.path in self._read:
            return True
        if self._looked.get(file.path) == file.version:
            return True
        return modified_s(file.path) < time.time() - self.look_every_s

    def resumed(self, partitions: Collection[Partition]) -> None:
        """Note the files that were listed before a snapshot."""
        files = (StoredFile.named(str(name)) for name in partitions)
        self._read = {file.path: file.version for file in files}

    def open(self, partition: Partition, position: Any) -> Iterator[Fetched[Any]]:
        """Read a file from a position on. The last batch is empty, and is sent only if the file has not changed."""
        at: int = position or 0
        batch: Batch
        refused: list[Refused] = []
        file = StoredFile.named(str(partition))

        def refuse(bad: BadLine) -> None:
            bad.error.add_note(f"This is file {file.path}.")
            refused.append(Refused(bad.line, bad.error, f"offset {bad.offset}"))

        reader = self._reader
        if isinstance(reader, CsvReader | JsonLinesReader | TextReader):
            reader = replace(reader, refuse=refuse)
        for batch, at in reader.read(file, at):  # noqa: B020 - `at` goes on
            yield Fetched(batch, at, is_whole=not self._whole_files, refused=tuple(refused))
            refused.clear()
        yield Fetched([], at)


def _chosen(schema: "pa.Schema", columns: Sequence[str]) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in dict.fromkeys(columns)])


def _check_text(encoding: str, schema: object, columns: object) -> None:
    if schema is not None or columns is not None:
        raise GraphError("FileSource: lines of text have no columns: leave out schema= and columns=")
    try:
        is_known = b"a\n".decode(encoding) == "a\n"
    except LookupError:
        is_known = False
    if not is_known:
        raise GraphError(
            f"FileSource: encoding {encoding!r} is unknown, or its line ends are not those of ASCII: use another one, "
            "or convert the files"
        )
