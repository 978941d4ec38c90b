"""Readers of files: each batch once, from any position that was yielded, and clear errors."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from tests.kit.operators.harness import operator_settings
from tidewheel.operators.files import file_readers
from tidewheel.operators.files.file_readers import (
    ArrowReader,
    CsvReader,
    FileReader,
    JsonLinesReader,
    ParquetReader,
    TextReader,
)
from tidewheel.operators.files.line_blocks import line_blocks
from tidewheel.operators.files.schema_fit import SchemaFit
from tidewheel.storage.stored_files import FileChanged, FileFinder, StoredFile

TABLE = pa.table({"n": range(100_000), "name": [f"name {n % 7}" for n in range(100_000)]})


def stored(path: Path | str) -> StoredFile:
    [file] = FileFinder("test", path, OSError).find()
    return file


def write_arrow(path: Path, table: pa.Table, *, is_file: bool = True) -> None:
    with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(path, table.schema) as writer:
        writer.write_table(table, 30_000)


def write_lines(path: Path, table: pa.Table) -> None:
    path.write_bytes(msgspec.json.Encoder().encode_lines(table.to_pylist()))


WAYS: dict[str, tuple[FileReader, Callable[[Path], object]]] = {
    "text": (TextReader(), lambda path: write_lines(path, TABLE)),
    "jsonl": (JsonLinesReader(), lambda path: write_lines(path, TABLE)),
    "jsonl with a schema": (
        JsonLinesReader(SchemaFit(TABLE.schema, leaves_out=True)),
        lambda path: write_lines(path, TABLE),
    ),
    "csv": (CsvReader(), lambda path: csv.write_csv(TABLE, path)),
    "csv with a schema": (
        CsvReader(fit=SchemaFit(TABLE.schema, leaves_out=True)),
        lambda path: csv.write_csv(TABLE, path),
    ),
    "parquet": (ParquetReader(), lambda path: pq.write_table(TABLE, path, row_group_size=40_000)),
    "arrow": (ArrowReader(), lambda path: write_arrow(path, TABLE)),
    "stream": (ArrowReader(), lambda path: write_arrow(path, TABLE, is_file=False)),
}


def rows_of(batches: list[tuple[Any, int]]) -> list[Any]:
    return [row for batch, _ in batches for row in (batch.to_pylist() if isinstance(batch, pa.RecordBatch) else batch)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_a_file_is_read_on_from_each_position(
    way: str, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """From the end of any batch come the same batches that have followed it."""
    reader, write = WAYS[way]
    write(tmp_path / "file")
    file = stored(tmp_path / "file")
    if place == "bucket":
        file = put(request.getfixturevalue("bucket"), tmp_path / "file")
    batches = list(reader.read(file))
    assert len(batches) > 1
    found = rows_of(batches)
    assert found == (
        TABLE.to_pylist() if way != "text" else [msgspec.json.encode(row).decode() for row in TABLE.to_pylist()]
    )
    for number, (_, position) in enumerate(batches):
        if number in (0, 1, len(batches) - 1):
            rest = list(reader.read(file, position))
            assert [at for _, at in rest] == [at for _, at in batches[number + 1 :]]
            assert rows_of(rest) == rows_of(batches[number + 1 :])


def put(bucket: str, path: Path) -> StoredFile:
    from tidewheel.storage.object_store import RemoteFolder

    RemoteFolder(bucket, 20, OSError).write(path.name, [memoryview(path.read_bytes())])
    return stored(f"{bucket}/{path.name}")


def pack(codec: str) -> Callable[[bytes], bytes]:
    def packed(data: bytes) -> bytes:
        buffer = pa.BufferOutputStream()
        with pa.CompressedOutputStream(buffer, codec) as out:
            out.write(data)
        return bytes(buffer.getvalue())

    return packed


CODECS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": pack("zstd"),
    ".lz4": pack("lz4"),
}


@pytest.mark.parametrize("suffix", CODECS)
def test_compressed_lines_are_read(suffix: str, tmp_path: Path) -> None:
    """From any position too; two archives one behind the other are one; one that is cut is an error."""
    path = tmp_path / f"rows.csv{suffix}"
    lines = "".join(f"{n},x{n}\n" for n in range(200_000))
    path.write_bytes(CODECS[suffix](f"a,b\n{lines}".encode()) + CODECS[suffix](b"7,y\n"))
    batches = list(CsvReader().read(stored(path)))
    rows = rows_of(batches)
    assert rows[0] == {"a": 0, "b": "x0"}
    assert rows[-1] == {"a": 7, "b": "y"}
    assert len(rows) == 200_001
    assert rows_of(list(CsvReader().read(stored(path), batches[0][1]))) == rows[batches[0][0].num_rows :]
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises((OSError, EOFError)) as error:
        list(CsvReader().read(stored(path)))
    assert str(path) in "".join(error.value.__notes__)


@operator_settings()
@given(st.lists(st.text("ab ", max_size=5), max_size=9), st.integers(1, 9), st.booleans())
def test_blocks_are_whole_lines(lines: list[str], size: int, ends: bool) -> None:
    """Whatever the size of a block, and from any end of one."""
    data = "\n".join(lines).encode() + (b"\n" if ends else b"")
    blocks = list(line_blocks(pa.BufferReader(data), size=size))
    assert b"".join(block for block, _ in blocks) == data
    assert all(block.endswith(b"\n") for block, _ in blocks[:-1])
    for number, (_, end) in enumerate(blocks):
        assert list(line_blocks(pa.BufferReader(data), end, size=size)) == blocks[number + 1 :]


@operator_settings()
@given(
    st.lists(st.lists(st.text('a"\n,', max_size=4), min_size=2, max_size=2), min_size=1, max_size=6), st.integers(1, 30)
)
def test_blocks_keep_quoted_line_ends(rows: list[list[str]], size: int) -> None:
    """Each block has whole rows of CSV, also where values have line ends and quotes."""
    data = "".join(",".join('"' + value.replace('"', '""') + '"' for value in row) + "\n" for row in rows).encode()
    options = csv.ParseOptions(newlines_in_values=True)
    found = []
    blocks = list(line_blocks(pa.BufferReader(data), 0, b'"', size=size))
    for block, _ in blocks:
        read = csv.ReadOptions(column_names=["a", "b"])
        convert = csv.ConvertOptions(column_types={"a": pa.string(), "b": pa.string()})
        found += csv.read_csv(pa.BufferReader(block), read, options, convert).to_pylist()
    assert [list(row.values()) for row in found] == rows
    assert blocks[-1][1] == len(data)


def test_line_ends_are_cut_off(tmp_path: Path) -> None:
    """Those of Windows too; other white space is the line's own, and the last line needs no end."""
    (tmp_path / "text").write_bytes("one \r\n\ttwo\n\nlaßt".encode())
    assert rows_of(list(TextReader().read(stored(tmp_path / "text")))) == ["one ", "\ttwo", "", "laßt"]
    (tmp_path / "text").write_bytes("naß\n".encode("latin-1"))
    assert rows_of(list(TextReader("latin-1").read(stored(tmp_path / "text")))) == ["naß"]
    with pytest.raises(UnicodeDecodeError):
        list(TextReader().read(stored(tmp_path / "text")))


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_a_file_that_changes_is_an_error(when: str, place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A reader never gets the beginning of one file and the end of another."""
    path = tmp_path / "file"
    path.write_bytes(b"first line\n" * 200_000)
    bucket = request.getfixturevalue("bucket") if place == "bucket" else ""
    file = put(bucket, path) if bucket else stored(path)
    reading = TextReader().read(file)
    if when == "meanwhile":
        next(reading)
    with path.open("ab") as more:
        more.write(b"more\n")
    if bucket:
        put(bucket, path)
    with pytest.raises(FileChanged) as error:
        list(reading)
    assert error.value.path == file.path


def test_a_half_written_file_is_said_to_be_changed(tmp_path: Path) -> None:
    """What was found in it does not matter."""
    pq.write_table(TABLE, tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "file").write_bytes(whole[:1000])
    file = stored(tmp_path / "file")
    with pytest.raises(pa.ArrowInvalid) as damaged:
        list(ParquetReader().read(file))
    assert str(tmp_path / "file") in "".join(damaged.value.__notes__)
    (tmp_path / "file").write_bytes(whole)
    with pytest.raises(FileChanged):
        list(ParquetReader().read(file))


def test_a_file_that_is_gone_is_an_error(tmp_path: Path, bucket: str) -> None:
    """It names the file, also of an object store."""
    (tmp_path / "file").write_bytes(b"line\n")
    files = [stored(tmp_path / "file"), put(bucket, tmp_path / "file")]
    (tmp_path / "file").unlink()
    from tidewheel.storage.object_store import RemoteFolder

    RemoteFolder(bucket, 20, OSError).remove(["file"])
    for file in files:
        with pytest.raises(FileNotFoundError, match=r"file is gone since it was found"):
            list(TextReader().read(file))


SCHEMA = pa.schema({"a": pa.int64(), "b": pa.string()})


def read_with(reader: Any, path: Path, fit: SchemaFit) -> list[Any]:
    return rows_of(list(reader(fit=fit).read(stored(path))))


WRITERS: dict[Any, Callable[[Path, pa.Table], object]] = {
    CsvReader: lambda path, table: csv.write_csv(table, path),
    ParquetReader: lambda path, table: pq.write_table(table, path),
    ArrowReader: write_arrow,
    JsonLinesReader: write_lines,
}


@pytest.mark.parametrize("reader", WRITERS)
def test_files_may_have_fewer_columns(reader: Any, tmp_path: Path) -> None:
    """Those that are missing are null; the order is that of the schema."""
    cases: list[tuple[pa.Table, dict[str, Any]]] = [
        (pa.table({"b": ["x"]}), {"a": None, "b": "x"}),
        (pa.table({"b": ["x"], "a": [1]}), {"a": 1, "b": "x"}),
    ]
    for table, expected in cases:
        WRITERS[reader](tmp_path / "file", table)
        [row] = read_with(reader, tmp_path / "file", SchemaFit(SCHEMA, leaves_out=False))
        assert list(row.items()) == list(expected.items())


@pytest.mark.parametrize("reader", WRITERS)
def test_other_columns_are_left_out_or_an_error(reader: Any, tmp_path: Path) -> None:
    """By default an error, so that nothing is lost in silence."""
    WRITERS[reader](tmp_path / "file", pa.table({"a": [1], "b": ["x"], "c": [2]}))
    with pytest.raises(ValueError, match=r"\['c'\]"):
        read_with(reader, tmp_path / "file", SchemaFit(SCHEMA, leaves_out=False))
    assert read_with(reader, tmp_path / "file", SchemaFit(SCHEMA, leaves_out=True)) == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize("reader", [ParquetReader, ArrowReader])
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1], pa.int8()), 1),
        (pa.array([1], pa.uint64()), 1),
        (pa.array([1.0]), 1),
        (pa.nulls(1), None),
        (pa.array([1.5]), None),
        (pa.array([1 << 63], pa.uint64()), None),
        (pa.array(["1"]), None),
        (pa.array([[1]]), None),
    ],
    ids=str,
)
def test_other_types_are_cast_if_no_value_changes(
    reader: Any, column: Any, expected: int | None, tmp_path: Path
) -> None:
    """Otherwise the error names the file, the column and both types."""
    WRITERS[reader](tmp_path / "file", pa.table({"a": column, "b": ["x"]}))
    fit = SchemaFit(SCHEMA, leaves_out=False)
    if expected is None and column.type != pa.null():
        with pytest.raises(ValueError, match=r"column 'a' is .*int64") as error:
            read_with(reader, tmp_path / "file", fit)
        assert str(tmp_path / "file") in "".join(error.value.__notes__)
    else:
        assert read_with(reader, tmp_path / "file", fit) == [{"a": expected, "b": "x"}]


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array([1e300]), pa.float32()),
        (pa.array([0.15]), pa.decimal128(5, 1)),
        (pa.array([1], pa.timestamp("us")), pa.date32()),
        (pa.array([[0.15]]), pa.list_(pa.decimal128(5, 1))),
    ],
    ids=["infinity", "fraction", "hour", "list"],
)
def test_what_another_type_cannot_hold_is_refused(column: Any, wanted: Any, tmp_path: Path) -> None:
    """Rather than lost: Arrow itself would cast it."""
    write_arrow(tmp_path / "file", pa.table({"a": column}))
    with pytest.raises(ValueError, match="column 'a' is"):
        read_with(ArrowReader, tmp_path / "file", SchemaFit(pa.schema({"a": wanted}), leaves_out=False))
    read_with(ArrowReader, tmp_path / "file", SchemaFit(pa.schema({"a": column.type}), leaves_out=False))


@pytest.mark.parametrize("reader", [CsvReader, JsonLinesReader])
def test_text_that_is_of_another_type_is_an_error(reader: Any, tmp_path: Path) -> None:
    """It names the file and the value."""
    WRITERS[reader](tmp_path / "file", pa.table({"a": ["x"], "b": ["y"]}))
    with pytest.raises(ValueError, match="x") as error:
        read_with(reader, tmp_path / "file", SchemaFit(SCHEMA, leaves_out=False))
    assert str(tmp_path / "file") in "".join(error.value.__notes__)


def test_json_lines_are_what_they_are(tmp_path: Path) -> None:
    """Without a schema any values; a line that is none says where."""
    (tmp_path / "file").write_text('{"a": [1, {"b": null}]}\n\n3\n"text"\n')
    assert rows_of(list(JsonLinesReader().read(stored(tmp_path / "file")))) == [{"a": [1, {"b": None}]}, 3, "text"]
    (tmp_path / "file").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(ValueError, match="is no JSON"):
        list(JsonLinesReader().read(stored(tmp_path / "file")))


def test_some_columns_are_read(tmp_path: Path) -> None:
    """Only those, and also a field in a column of Parquet."""
    table = pa.table({"n": [1], "m": [2], "place": [{"city": "Oslo", "lat": 60}]})
    pq.write_table(table, tmp_path / "a.parquet")
    write_arrow(tmp_path / "a.arrow", table)
    csv.write_csv(table.select(["n", "m"]), tmp_path / "a.csv")
    for reader, suffix in ((ParquetReader, "parquet"), (ArrowReader, "arrow"), (CsvReader, "csv")):
        some: Any = reader(columns=["m"])
        assert rows_of(list(some.read(stored(tmp_path / f"a.{suffix}")))) == [{"m": 2}]
        assert some.schema_of(stored(tmp_path / f"a.{suffix}")).names == ["m"]
    nested = ParquetReader(columns=["place.city"])
    assert rows_of(list(nested.read(stored(tmp_path / "a.parquet")))) == [{"place": {"city": "Oslo"}}]


def test_options_of_csv_are_pyarrows(tmp_path: Path) -> None:
    """Another delimiter, and line ends in values."""
    (tmp_path / "file").write_text('a;b\n1;"x\ny"\n')
    options = csv.ParseOptions(delimiter=";", newlines_in_values=True)
    assert rows_of(list(CsvReader(options).read(stored(tmp_path / "file")))) == [{"a": 1, "b": "x\ny"}]


def test_a_format_is_told_by_the_suffix() -> None:
    """Behind which there may be one of a compressed file."""
    found = {name: file_readers.format_of(f"a{name}") for name in (".parquet", ".CSV", ".jsonl.zst", ".log.gz", ".bin")}
    assert found == {".parquet": "parquet", ".CSV": "csv", ".jsonl.zst": "jsonl", ".log.gz": "text", ".bin": None}
