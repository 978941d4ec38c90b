"""Batches of every kind that a message can carry, of any length, and whether one arrived as it was sent."""

import datetime
import decimal
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Point:
    x: float
    tags: frozenset[str]


def _mixed(n: int) -> list[Any]:
    kinds = [
        1, 2**70, -1.5, 1j, None, True, "ü", b"\x00", bytearray(b"ab"), (1, (2,)), [3], {"a": {1}}, frozenset({4}),
        decimal.Decimal("1.10"), datetime.date(2024, 2, 29), datetime.timedelta(1), Colour.RED, Pair(1, "r"),
        Point(0.5, frozenset({"t"})), slice(1, 2), range(3), int, len, np.float32(1.5), np.datetime64(5, "ns"),
    ]  # fmt: skip
    return [kinds[i % len(kinds)] for i in range(n)]


def _table(n: int) -> pa.Table:
    return pa.table({"n": np.arange(n), "text": [None if i % 3 == 0 else f"ü{i}" for i in range(n)]})


def _nested(n: int) -> pa.Table:
    return pa.table(
        {
            "list": pa.array([[i, None] for i in range(n)], pa.list_(pa.int16())),
            "struct": pa.array([{"a": i, "b": None} for i in range(n)], pa.struct({"a": pa.int64(), "b": pa.null()})),
            "decimal": pa.array([decimal.Decimal(i) for i in range(n)], pa.decimal128(20, 2)),
            "when": pa.array(range(n), pa.timestamp("ns", "UTC")),
            "map": pa.array([[("k", i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
            "bool": pa.array([i % 2 == 0 for i in range(n)]),
        }
    )


def _dictionaries(n: int) -> pa.Table:
    chunks = [pa.array(words * n).dictionary_encode() for words in (["a", "b"], ["c"])]
    return pa.table({"text": pa.chunked_array(chunks)})


def _read_only(n: int) -> Any:
    array = np.arange(n)
    array.setflags(write=False)
    return array


KINDS: dict[str, Callable[[int], Any]] = {
    "list of all sorts": _mixed,
    "list of arrays": lambda n: [np.arange(n), np.array(5.0), np.zeros((n, 0)), np.float64(2)],
    "list of bytes": lambda n: [bytes(n), bytearray(n)],
    "list of tables": lambda n: [_table(n), _table(n).column("n")],
    "integers": np.arange,
    "two dimensions": lambda n: np.arange(6 * n, dtype="i2").reshape(2 * n, 3),
    "by columns": lambda n: np.asfortranarray(np.arange(6.0 * n).reshape(2 * n, 3)),
    "every second": lambda n: np.arange(2 * n)[::2],
    "backwards": lambda n: np.arange(n)[::-1],
    "a column of many": lambda n: np.arange(4 * n).reshape(n, 4)[:, 1],
    "an axis of length 0": lambda n: np.zeros((n, 0, 3)),
    "structured": lambda n: np.array([(i, 0.5, "ab") for i in range(n)], [("n", "i4"), ("x", ">f8"), ("text", "U2")]),
    "structured and padded": lambda n: np.zeros(n, np.dtype([("a", "i1"), ("b", "f8", (2,))], align=True)),
    "objects": lambda n: np.array([(i, None) if i % 2 else "a" for i in range(n)] + [None], object),
    "structured with objects": lambda n: np.array([(i, [i]) for i in range(n)], [("n", "i4"), ("o", object)]),
    "texts": lambda n: np.array([f"ü{i}" for i in range(n)] or ["ü"]),
    "instants": lambda n: np.arange(n).astype("M8[ns]"),
    "booleans": lambda n: np.arange(n) % 2 == 0,
    "complex": lambda n: np.arange(n) * 1j,
    "long doubles": lambda n: np.arange(n, dtype=np.longdouble),
    "big-endian": lambda n: np.arange(n, dtype=">i4"),
    "not writable": _read_only,
    "record array": lambda n: np.array([(i, i / 2) for i in range(n)], [("a", "i8"), ("b", "f8")]).view(np.recarray),
    "table": _table,
    "table of chunks": lambda n: pa.concat_tables([_table(n), _table(n + 1)]),
    "nested table": _nested,
    "dictionaries": _dictionaries,
    "no columns": lambda n: _table(n).select([]),
    "no chunks": lambda n: pa.table({"n": pa.chunked_array([], pa.int64())}),
    "metadata": lambda n: _table(n).replace_schema_metadata({"made": "by hand"}),
    "slice of a table": lambda n: _table(3 * n).slice(n, n),
    "record batch": lambda n: _table(max(n, 1)).to_batches()[0],
    "empty record batch": lambda n: _table(n + 1).to_batches()[0].slice(0, 0),
    "slice of a record batch": lambda n: _table(3 * n + 3).to_batches()[0].slice(n, n + 1),
    "dictionary batch": lambda n: _dictionaries(n + 1).to_batches()[0],
}


def same(sent: Any, arrived: Any) -> bool:
    """Tell whether the two are of one type and have equal contents, down to types, shapes and schemas."""
    if type(sent) is not type(arrived):
        return False
    if isinstance(sent, pa.Table | pa.RecordBatch):
        arrived.validate(full=True)
        return bool(sent.equals(arrived, check_metadata=True)) and sent.num_rows == arrived.num_rows
    if isinstance(sent, np.ndarray):
        if (sent.dtype, sent.shape) != (arrived.dtype, arrived.shape):
            return False
        return bool(sent.tolist() == arrived.tolist() if sent.dtype.hasobject else sent.tobytes() == arrived.tobytes())
    if isinstance(sent, list):
        return len(sent) == len(arrived) and all(map(same, sent, arrived))
    return bool(sent == arrived)
