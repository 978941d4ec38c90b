"""The readers of files, one for each format: they yield batches, each with the position after it.

A position is a whole number, 0 at the beginning: an offset of bytes in formats of lines, a row in Parquet, a batch in
Arrow IPC. A reader that begins at a position yields the same batches from there on as a reader that began at 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tidewheel.batches.batches import Batch
from tidewheel.host.safe_text import safe_text
from tidewheel.operators.files.bad_lines import Refuse, parsed_lines
from tidewheel.operators.files.compression import bare, decompressed
from tidewheel.operators.files.line_blocks import line_blocks
from tidewheel.operators.files.schema_fit import SchemaFit
from tidewheel.storage.store_url import is_url
from tidewheel.storage.stored_files import StoredFile, opened

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv

_ROWS = 65_536


class FileReader(Protocol):
    def read(self, file: StoredFile, start: int = 0) -> Iterator[tuple[Batch, int]]:
        """Yield the batches from a position on, each with the position after it.

        A block of lines without any record is an empty batch: all its lines may have been refused.

        Raises:
            FileChanged: the file has been replaced, or changes during the call.
            Exception: the file does not have this format; a note on the exception has the path.
        """

    def schema_of(self, file: StoredFile) -> "pa.Schema | None":
        """Return the columns of a file; None if its records have no columns."""


@dataclass(frozen=True, slots=True)
class TextReader:
    """Reads lines as text, without line ends."""

    encoding: str = "utf-8"
    errors: str = "strict"
    refuse: Refuse | None = None

    def read(self, file: StoredFile, start: int = 0) -> Iterator[tuple[list[str], int]]:
        """Yield the lines of each block."""
        with opened(file) as raw, decompressed(raw, file.path) as reader:
            for block, end in line_blocks(reader, start):
                parts = parsed_lines(block, end - len(block), self._lines, self.refuse)
                yield _chained(parts), end

    def _lines(self, block: bytes, _: int) -> list[str]:
        text = block.decode(self.encoding, self.errors)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text.removesuffix("\n").split("\n")

    def schema_of(self, file: StoredFile) -> None:
        """Return None: a line has no columns."""
        return


@dataclass(frozen=True, slots=True)
class JsonLinesReader:
    """Reads one JSON value per line: unchanged or, with ``fit``, as columns."""

    fit: SchemaFit | None = None
    refuse: Refuse | None = None

    def read(self, file: StoredFile, start: int = 0) -> Iterator[tuple[Batch, int]]:
        with opened(file) as raw, decompressed(raw, file.path) as reader:
            for block, end in line_blocks(reader, start):
                parts = parsed_lines(block, end - len(block), self._values, self.refuse)
                values = _chained([values for values, _ in parts])
                if self.fit is not None and values:
                    yield _in_one([rows for _, rows in parts if rows is not None]), end
                else:
                    yield values, end

    def _values(self, block: bytes, offset: int) -> "tuple[list[Any], pa.RecordBatch | None]":
        try:
            values = msgspec.json.Decoder().decode_lines(block)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"a line after offset {offset} is no JSON: {error}") from None
        return values, _rows(values, self.fit) if values and self.fit is not None else None

    def schema_of(self, file: StoredFile) -> None:
        """Return None: each line may have other names."""
        return


@dataclass(frozen=True, slots=True)
class CsvReader:
    """Reads CSV with a header line.

    Args:
        options: the dialect of the CSV, such as its delimiter; None for RFC 4180.
        columns: the columns to read; None for all.
        fit: the columns of the results; None for the file's columns.
    """

    options: "csv.ParseOptions | None" = None
    columns: Sequence[str] | None = None
    fit: SchemaFit | None = None
    refuse: Refuse | None = None

    def read(self, file: StoredFile, start: int = 0) -> Iterator[tuple[Batch, int]]:
        layout = self._layout_of(file) if start else None
        with opened(file) as raw, decompressed(raw, file.path) as reader:
            for block, end in line_blocks(reader, start, self._quote()):
                rows = block
                if layout is None:
                    layout, rows = self._layout(block), block[_first_line(block) :]
                parse = partial(self._fitted, layout)
                parts = parsed_lines(rows, end - len(rows), parse, self.refuse, may_cut=not self._quote())
                batches = _chained(parts)
                yield _in_one(batches) if batches else [], end

    def schema_of(self, file: StoredFile) -> "pa.Schema":
        """Return the columns of a file, with the types found in its first block."""
        return self._layout_of(file).schema

    def _layout_of(self, file: StoredFile) -> "_Layout":
        with opened(file) as raw, decompressed(raw, file.path) as reader:
            for block, _ in line_blocks(reader, 0, self._quote()):
                return self._layout(block)
        raise ValueError(f"{file.path} is empty: a CSV file begins with a line of names")

    def _layout(self, block: bytes) -> "_Layout":
        import pyarrow as pa
        from pyarrow import csv

        line = _first_line(block)
        names = csv.read_csv(pa.BufferReader(block[:line]), parse_options=self.options).schema.names
        if self.fit is not None and self.fit.leaves_out:
            return _Layout(names, self.fit.schema)
        if self.fit is not None:
            unlike = [pa.field(name, pa.null()) for name in names if name not in self.fit.schema.names]
            self.fit.check(pa.schema([*self.fit.schema, *unlike]))
            return _Layout(names, self.fit.schema)
        rows = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(block_size=len(block) + 1),
            self.options,
            csv.ConvertOptions(include_columns=self.columns),
        )
        return _Layout(names, rows.schema)

    def _quote(self) -> bytes:
        if self.options is None or not self.options.newlines_in_values or not self.options.quote_char:
            return b""
        return str(self.options.quote_char).encode()

    def _fitted(self, layout: "_Layout", rows: bytes, offset: int) -> "list[pa.RecordBatch]":
        batches = self._parsed(rows, layout, offset)
        return batches if self.fit is None else [self.fit.fit(batch) for batch in batches]

    def _parsed(self, rows: bytes, layout: "_Layout", offset: int) -> "list[pa.RecordBatch]":
        import pyarrow as pa
        from pyarrow import csv

        if not rows.strip():
            return []
        try:
            table = csv.read_csv(
                pa.BufferReader(rows),
                csv.ReadOptions(block_size=len(rows) + 1, column_names=layout.names),
                self.options,
                csv.ConvertOptions(
                    column_types=layout.schema, include_columns=layout.schema.names, include_missing_columns=True
                ),
            )
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"a line after offset {offset} does not fit into the columns {layout.schema.names}: {error}. Types are "
                "those of the first lines of the first file; schema= has others"
            ) from None
        return list(table.combine_chunks().to_batches())


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns of a CSV file.

    Attributes:
        names: the names of all columns, in order.
        schema: the columns that are read.
    """

    names: "list[str]"
    schema: "pa.Schema"


def _first_line(block: bytes) -> int:
    return block.find(b"\n") + 1 or len(block)


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """Reads Parquet, one row group at a time."""

    columns: Sequence[str] | None = None
    fit: SchemaFit | None = None

    def read(self, file: StoredFile, start: int = 0) -> "Iterator[tuple[pa.RecordBatch, int]]":
        with opened(file) as raw, _parquet(raw, file.path) as reader:
            first = 0
            columns = self._present(reader)
            for group in range(reader.num_row_groups):
                rows = reader.metadata.row_group(group).num_rows
                if first + rows > start:
                    at = first
                    for batch in reader.iter_batches(_ROWS, row_groups=[group], columns=columns):
                        at += batch.num_rows
                        if at > start and batch.num_rows:
                            yield batch if self.fit is None else self.fit.fit(batch), at
                first += rows

    def _present(self, reader: Any) -> list[str] | None:
        names = reader.schema_arrow.names
        if self.columns is not None:
            return [name for name in self.columns if name.partition(".")[0] in names]
        if self.fit is not None and self.fit.leaves_out:
            return [name for name in names if name in self.fit.schema.names]
        return None

    def schema_of(self, file: StoredFile) -> "pa.Schema":
        with opened(file) as raw, _parquet(raw, file.path) as reader:
            return reader.read_row_groups([], columns=self.columns).schema


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """Reads Arrow IPC, in the file format or the stream format."""

    columns: Sequence[str] | None = None
    fit: SchemaFit | None = None

    def read(self, file: StoredFile, start: int = 0) -> "Iterator[tuple[pa.RecordBatch, int]]":
        with opened(file) as raw, decompressed(raw, file.path) as reader:
            for number, batch in _arrow_batches(reader, start):
                if batch.num_rows:
                    chosen = batch if self.columns is None else batch.select(self._present(batch))
                    yield chosen if self.fit is None else self.fit.fit(chosen), number + 1

    def _present(self, batch: "pa.RecordBatch") -> list[str]:
        return [name for name in self.columns or () if name in batch.schema.names]

    def schema_of(self, file: StoredFile) -> "pa.Schema":
        """Return the columns of a file."""
        import pyarrow as pa

        with opened(file) as raw, decompressed(raw, file.path) as reader:
            schema = _arrow_reader(reader)[0].schema
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])


def _parquet(file: "pa.NativeFile", path: str) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(file, pre_buffer=is_url(path))


_ARROW_FILE = b"ARROW1"


def _arrow_reader(file: "pa.NativeFile") -> tuple[Any, bool]:
    """Return the reader of a file, and whether it has random access to batches."""
    import pyarrow as pa

    if file.seekable():
        begins = file.read(len(_ARROW_FILE))
        file.seek(0)
        if begins == _ARROW_FILE:
            return pa.ipc.open_file(file), True
        return pa.ipc.open_stream(file), False
    whole = file.read()  # compressed; a file is read from its end
    if whole[: len(_ARROW_FILE)] == _ARROW_FILE:
        return pa.ipc.open_file(whole), True
    return pa.ipc.open_stream(whole), False


def _arrow_batches(file: "pa.NativeFile", start: int) -> "Iterator[tuple[int, pa.RecordBatch]]":
    reader, is_file = _arrow_reader(file)
    if is_file:
        for number in range(start, reader.num_record_batches):
            yield number, reader.get_batch(number)
        return
    for number, batch in enumerate(reader):
        if number >= start:
            yield number, batch


def _chained(parts: list[list[Any]]) -> list[Any]:
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


def _in_one(batches: "list[pa.RecordBatch]") -> "pa.RecordBatch":
    """Return the rows of a block as one batch, since only the end of the block is a position."""
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _rows(values: list[Any], fit: SchemaFit) -> "pa.RecordBatch":
    import pyarrow as pa

    others = {name for value in values if isinstance(value, dict) for name in value} - set(fit.schema.names)
    if others and not fit.leaves_out:
        raise ValueError(f"names {sorted(others)} are not in schema=")
    try:
        return pa.RecordBatch.from_pylist(values, fit.schema)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        plain = [f"{safe_text(value):.200} is no object" for value in values if not isinstance(value, dict)]
        raise ValueError(f"lines do not fit into the columns of schema=: {plain[0] if plain else error}") from None


FORMATS = {
    "parquet": (".parquet",),
    "csv": (".csv",),
    "jsonl": (".jsonl", ".ndjson"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "text": (".txt", ".log"),
}
"""The suffixes of each format; compressed files have another suffix after it."""


def format_of(path: str) -> str | None:
    """Return the format of a file, by its suffix.

    >>> format_of("s3://sales/2024.csv.gz"), format_of("data.bin")
    ('csv', None)
    """
    name = bare(path).lower()
    return next((one for one, suffixes in FORMATS.items() if name.endswith(suffixes)), None)
