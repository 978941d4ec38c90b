"""The formats in which epochs are written to files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import IO, TYPE_CHECKING, Any

import msgspec

from tidewheel.batches.batches import Batch, is_arrow, is_numpy, records
from tidewheel.operators.files.compression import CODECS
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    import pyarrow as pa

_LINE_CODECS = tuple(codec for codec in CODECS.values() if codec != "xz")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files, and their compression.

    Args:
        name: one of `FILE_FORMATS`.
        compression: the codec of the file or, in Parquet and Arrow, of its pages; None for the format's default.

    Raises:
        GraphError: there is no such format, or it cannot be compressed that way.
    """

    name: str
    compression: str | None = None

    def __post_init__(self) -> None:
        """Check the format and its compression."""
        if self.name not in FILE_FORMATS:
            raise GraphError(f"write_files: format is one of {', '.join(map(repr, FILE_FORMATS))}, not {self.name!r}")
        codecs = _OWN_CODECS.get(self.name, _LINE_CODECS)
        if self.compression is not None and self.compression not in codecs:
            raise GraphError(
                f"write_files: compression of {self.name} is one of {', '.join(map(repr, codecs))}, or None, not "
                f"{self.compression!r}"
            )

    @property
    def suffix(self) -> str:
        """The end of the files' names.

        >>> FileFormat("csv", "gzip").suffix, FileFormat("parquet", "zstd").suffix
        ('csv.gz', 'parquet')
        """
        if self.compression is None or self.name in _OWN_CODECS:
            return self.name
        return self.name + next(suffix for suffix, codec in CODECS.items() if codec == self.compression)

    def write(self, file: IO[bytes], batches: Sequence[Batch]) -> None:
        """Write at least one batch to an open file.

        Raises:
            TypeError: the records do not fit into the format.
        """
        import pyarrow as pa

        if self.compression is None or self.name in _OWN_CODECS:
            FILE_FORMATS[self.name](file, batches, self.compression)
            return
        buffer = pa.BufferOutputStream()
        with pa.CompressedOutputStream(buffer, self.compression) as packed:
            FILE_FORMATS[self.name](packed, batches, None)
        file.write(buffer.getvalue())


_ADVICE = (
    'map them to dicts first, whose names are the columns, such as .map(lambda pair: {"key": pair[0], "n": pair[1]})'
)


def table_of(batches: Sequence[Batch]) -> "pa.Table":
    """Return the records of at least one batch as one table; batches may have different columns.

    Dicts become a column for each name, named tuples and dataclasses a column for each field. Plain tuples become the
    columns "_1", "_2" and so on, as in Spark; other records become the column "value". Missing values are null. A
    column of numbers gets a type that holds them all.

    >>> table_of([[{"a": 1}, {"b": 2.5}]]).to_pylist()
    [{'a': 1, 'b': None}, {'a': None, 'b': 2.5}]
    >>> table_of([[("tide", 2), ("wheel", 1)]]).to_pylist()
    [{'_1': 'tide', '_2': 2}, {'_1': 'wheel', '_2': 1}]
    >>> table_of([[1, 2]]).to_pylist()
    [{'value': 1}, {'value': 2}]

    Raises:
        TypeError: records have no common columns, or the values of a column have no common type.
    """
    import pyarrow as pa

    tables = [as_table(batch) for batch in batches if _has_columns(batch)]
    rows = [record for batch in batches if not _has_columns(batch) for record in records(batch)]
    try:
        if rows:
            tables.append(pa.table(_columns([_with_names(record) for record in rows])))
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        text = f"records do not fit into columns, such as {rows[:1] or tables[:1]!r:.200}: {error}"
        raise TypeError(text if all(isinstance(row, dict) for row in rows) else f"{text}; {_ADVICE}") from error


def _with_names(record: Any) -> Any:
    if isinstance(record, tuple) and not hasattr(record, "_fields"):
        return {f"_{place}": value for place, value in enumerate(record, start=1)}
    return _with_fields(record)


def _with_fields(record: Any) -> Any:
    if isinstance(record, tuple) and hasattr(record, "_fields"):
        return dict(zip(record._fields, record, strict=True))
    if is_dataclass(record) and not isinstance(record, type):
        return {field.name: getattr(record, field.name) for field in fields(record)}
    return record


def _has_columns(batch: Batch) -> bool:
    return is_arrow(batch) or (is_numpy(batch) and batch.dtype.names is not None)


def _columns(rows: list[Any]) -> dict[str, list[Any]]:
    kinds = [isinstance(row, dict) for row in rows]
    if not any(kinds):
        return {"value": rows}
    if not all(kinds):
        other = rows[kinds.index(False)]
        raise TypeError(f"some records are dicts, which have columns, and some are not, such as {other!r:.200}")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _write_parquet(file: IO[bytes], batches: Sequence[Batch], compression: str | None) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table_of(batches), file, compression=compression or "snappy")


def _write_arrow(file: IO[bytes], batches: Sequence[Batch], compression: str | None) -> None:
    import pyarrow as pa

    table = table_of(batches)
    with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)


def _write_text(file: IO[bytes], batches: Sequence[Batch], _: str | None) -> None:
    for batch in batches:
        for record in records(batch):
            if not isinstance(record, str) or "\n" in record or "\r" in record:
                raise TypeError(
                    f"a record of text is a str without line ends, which is a line, not {record!r:.200}: map the "
                    "records to such, or write jsonl"
                )
            file.write(record.encode() + b"\n")


def _write_csv(file: IO[bytes], batches: Sequence[Batch], _: str | None) -> None:
    import pyarrow as pa
    from pyarrow import csv

    table = table_of(batches)
    for name in table.column_names:
        if pa.types.is_nested(table.schema.field(name).type):
            raise TypeError(
                f"column {name!r} is {table.schema.field(name).type}, which has no place in a line of csv: write "
                "parquet or jsonl, or map the records to flat ones first"
            )
    csv.write_csv(table, file)


def _write_lines(file: IO[bytes], batches: Sequence[Batch], _: str | None) -> None:
    encoder = msgspec.json.Encoder(enc_hook=_iso_text)
    for batch in batches:
        rows = records(as_table(batch) if _has_columns(batch) else batch)
        file.write(encoder.encode_lines([_with_fields(record) for record in rows]))


def _iso_text(value: Any) -> str | None:
    """Return a time or duration of pandas or NumPy as text, None for NaT; raise TypeError for anything else."""
    if hasattr(value, "isoformat") or type(value).__name__ == "datetime64":
        text = str(value.isoformat() if hasattr(value, "isoformat") else value)
        return None if text == "NaT" else text
    raise TypeError(
        f"Encoding objects of type {type(value).__qualname__} is unsupported: map them to plain values first"
    )


FILE_FORMATS: Mapping[str, Callable[[Any, Sequence[Batch], str | None], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_lines,
    "arrow": _write_arrow,
    "text": _write_text,
}
"""The functions that write batches to an open file, by the name of the format; "jsonl" is one JSON record per line."""

_OWN_CODECS: Mapping[str, tuple[str, ...]] = {
    "parquet": ("snappy", "zstd", "gzip", "lz4", "brotli"),
    "arrow": ("zstd", "lz4"),
}
"""The formats that compress parts of a file themselves, and their codecs."""
