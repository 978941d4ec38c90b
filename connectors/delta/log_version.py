"""The changes of one version of a table, as its log describes them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Expression, ParquetFileFormat, ParquetFileFragment
    from pyarrow.fs import FileSystem


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A file with new rows: its path, and the values of the partition columns as text."""

    path: str
    divided: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class LogVersion:
    """One version of a table.

    Attributes:
        operation: the operation's name, given by the program that wrote the version.
        added: files with new rows; files that a compaction has written are left out.
        removes: whether rows were removed or rewritten.
        hides: whether a deletion vector hides rows of the added files.
        changes_table: whether columns or properties of the table were changed.
    """

    operation: str
    added: tuple[AddedFile, ...]
    removes: bool
    hides: bool
    changes_table: bool

    @property
    def changes_rows(self) -> bool:
        """True if this version changes the rows of the table."""
        return bool(self.added) or self.removes


def read_version(files: "FileSystem", version: int) -> LogVersion:
    """Return a version; raise FileNotFoundError if the log does not have it."""
    with files.open_input_stream(f"_delta_log/{version:020}.json") as stream:
        text = stream.read()
    actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    added = [action["add"] for action in actions if "add" in action and action["add"]["dataChange"]]
    operations = [action["commitInfo"].get("operation") for action in actions if "commitInfo" in action]
    return LogVersion(
        next((str(operation) for operation in operations if operation), "unknown"),
        tuple(AddedFile(unquote(one["path"]), one.get("partitionValues") or {}) for one in added),
        any("remove" in action and action["remove"].get("dataChange", True) for action in actions),
        any(one.get("deletionVector") for one in added),
        any("metaData" in action for action in actions),
    )


def fragments_of(
    added: Sequence[AddedFile], files: "FileSystem", parquet: "ParquetFileFormat", schema: "pa.Schema"
) -> "Iterator[ParquetFileFragment]":
    """Yield the files that a version has added, for Arrow, with their partition values, which files may lack."""
    for file in added:
        expression: Expression | None = None
        for name, text in file.divided.items():
            if name in schema.names:
                one = _is_value(name, text, schema.field(name).type)
                expression = one if expression is None else expression & one
        yield parquet.make_fragment(file.path, files, expression)


def _is_value(name: str, text: str | None, kind: "pa.DataType") -> "Expression":
    import pyarrow as pa
    import pyarrow.compute as pc

    if text is None or text == "":
        return pc.field(name).is_null()
    value: Any = pa.scalar(text)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        value = pa.scalar(text.removesuffix("Z")).cast(pa.timestamp(kind.unit))  # without a zone it is UTC
    return pc.field(name) == value.cast(kind)
