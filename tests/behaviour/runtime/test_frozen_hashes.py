"""The frozen hashes of keys and of records.

When a test here fails, a change has given a key or a record another hash. Snapshots have state by shard, and
exactly-once logs have records by partition, so a restored job would look for both in the wrong place. Undo that change.
If there is no other way, it needs a new `HASH_VERSION`, new files, and a way on for snapshots and logs of the version
before. A new kind of key gets lines of its own; lines that are there stay as they are.

A line of a file has a hash in hexadecimal digits, two spaces, and Python code that makes the key or the record.
"""

import datetime as dt
import enum
import math
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.batches.batches import records
from tidewheel.operators.keys.record_hash import record_hash, record_hashes
from tidewheel.runtime.description.pacts import Exchange
from tidewheel.runtime.description.shards import SHARDS
from tidewheel.runtime.description.stable_hash import (
    HASH_VERSION,
    hash_column,
    hash_integers,
    hash_keys,
    hash_tuples,
    stable_hash,
)


class Pair(NamedTuple):
    number: int
    text: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = 7
    MIXED = (1, "a")
    NONE = None


class Level(enum.IntEnum):
    LOW = 7


class Word(enum.StrEnum):
    ALPHA = "alpha"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Size(float, enum.Enum):
    HALF = 0.5


@dataclass
class Point:
    x: Any
    y: Any


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any
    y: Any


@dataclass(slots=True)
class Slotted:
    x: Any
    y: Any


class Plain:
    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


OWN = (Pair, Colour, Level, Word, Rights, Size, Point, Frozen, Slotted, Plain)
STANDARD = (Counter, OrderedDict, defaultdict, deque, Decimal, Fraction, ZoneInfo)
NAMES: dict[str, Any] = {kind.__name__: kind for kind in (*OWN, *STANDARD)}
NAMES |= {"dt": dt, "math": math, "np": np, "pd": pd, "uuid": uuid}


def frozen(name: str) -> list[tuple[Any, int]]:
    """Return the keys or records of a file, each with the hash that it has to have."""
    lines = Path(__file__).with_name(name).read_text(encoding="ascii").splitlines()
    return [(eval(code, NAMES), int(hashed, 16)) for hashed, _, code in (line.partition("  ") for line in lines)]


KEYS = frozen("frozen_keys.txt")
RECORDS = frozen("frozen_records.txt")


def changed(cases: list[tuple[Any, int]], hashes: list[int]) -> list[str]:
    """Return the keys or records whose hashes have changed, for people."""
    pairs = zip(cases, hashes, strict=True)
    return [
        f"{key!r:.60} hashes to {found:016x}, not {wanted:016x}" for (key, wanted), found in pairs if found != wanted
    ]


def test_a_new_version_has_new_files() -> None:
    """The files are of version 1, and they have hundreds of keys of all kinds."""
    assert HASH_VERSION == 1
    assert len(KEYS) > 300
    assert len({type(key) for key, _ in KEYS}) > 40


def test_keys_hash_as_ever() -> None:
    """One by one, and as a list."""
    assert changed(KEYS, [stable_hash(key) for key, _ in KEYS]) == []
    assert changed(KEYS, list(hash_keys([key for key, _ in KEYS]))) == []


def test_many_strings_hash_as_ever() -> None:
    """A list of many strings is hashed all at once."""
    strings = [case for case in KEYS if type(case[0]) is str] * 10
    assert len(strings) > 256
    assert changed(strings, list(hash_keys([key for key, _ in strings]))) == []


def test_tuples_of_columns_hash_as_ever() -> None:
    """Several columns are one key."""
    tuples = [case for case in KEYS if isinstance(case[0], tuple) and case[0]]
    found = [hash_tuples([np.array([stable_hash(part)], np.uint64) for part in key])[0] for key, _ in tuples]
    assert len(tuples) > 20
    assert changed(tuples, list(map(int, found))) == []


WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
BYTES = [pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())]
COLUMNS: dict[type, list[Any]] = {
    type(None): [pa.null(), pa.int64(), pa.string(), pa.timestamp("us"), pa.float64()],
    bool: [pa.bool_()],
    int: [*WHOLE, pa.decimal128(38, 0)],
    float: [pa.float64()],
    Decimal: [pa.decimal128(38, 10), pa.decimal256(76, 40)],
    str: TEXTS,
    bytes: BYTES,
    dt.date: [pa.date32(), pa.date64()],
    dt.datetime: [pa.timestamp("us")],
    dt.time: [pa.time64("us")],
    dt.timedelta: [pa.duration("us")],
}
"""The types of Arrow columns that hold keys of a Python type."""


def columns_of(key: Any) -> list[Any]:
    """Return Arrow columns of one row with ``key``, one of each type that can hold it.

    Arrow drops the number of units in which NumPy counts time, and the part of a second of an offset from UTC.
    """
    kinds = COLUMNS.get(type(key), [])
    values: Any = [key]
    if isinstance(key, np.datetime64 | np.timedelta64) and (np.isnat(key) or np.datetime_data(key.dtype)[1] > 1):
        kinds = []
    elif isinstance(key, np.generic):
        kinds, values = [None], np.array(values)
    elif getattr(key, "tzinfo", None) is not None:
        offset: Any = key.utcoffset()
        fits = type(key) is dt.datetime and not offset.microseconds
        kinds = [pa.timestamp("us", zone) for zone in ("UTC", "Asia/Tokyo")] if fits else []
    found = []
    for kind in kinds:
        try:
            found.append(pa.array(values, kind))
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):  # too great, a surrogate, no type of Arrow's
            continue
    return found


def test_columns_hash_as_ever() -> None:
    """Arrow columns of every type that can hold a key."""
    cases = [(column, case) for case in KEYS for column in columns_of(case[0])]
    counts = Counter(str(column.type) for column, _ in cases)
    assert not {str(kind) for kinds in COLUMNS.values() for kind in kinds} - set(counts)
    assert changed([case for _, case in cases], [int(hash_column(column)[0]) for column, _ in cases]) == []


def arrays_of(key: Any) -> list[Any]:
    """Return NumPy arrays of one record with the field ``key``, of the dtypes that hold the key without loss."""
    kinds: list[Any] = []
    if isinstance(key, np.generic):
        kinds = [key.dtype]
    elif type(key) is int:
        widths = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
        kinds = [width for width in widths if np.iinfo(width).min <= key <= np.iinfo(width).max]
    elif type(key) in {bool, float, complex}:
        kinds = [np.dtype(type(key)), np.dtype(object)]
    elif type(key) in {str, bytes} and not key.endswith("\0" if isinstance(key, str) else b"\0"):
        kinds = [np.array(key).dtype]
    elif not isinstance(key, tuple):
        kinds = [np.dtype(object)]
    return [np.array([(key,)], dtype=[("key", kind)]) for kind in kinds]


def test_arrays_hash_as_ever() -> None:
    """Structured NumPy arrays: with as many workers as shards, the owner is the shard."""
    cases = [(array, wanted) for key, wanted in KEYS for array in arrays_of(key)]
    assert len({str(array.dtype) for array, _ in cases}) > 30
    for array, wanted in cases:
        parts = Exchange("key").split(array, SHARDS)
        assert [shard for shard, part in enumerate(parts) if part is not None] == [wanted % SHARDS], array
        if array["key"].dtype.kind in "iub":
            assert hash_integers(array["key"]).tolist() == [wanted]


# ---------------------------------------------------------------------- numbers that Python hashes


def test_python_hashes_numbers_as_64_bit_builds_do() -> None:
    """Numbers that are not whole hash by Python's `hash`. These are all its parameters; only a 32-bit build has others.

    How Python hashes strings (``algorithm``, ``cutoff``, ``seed_bits``, ``PYTHONHASHSEED``) has no part in it.
    """
    found = sys.hash_info
    assert (found.width, found.modulus, found.inf, found.imag) == (64, 2**61 - 1, 314159, 1000003)


def documented_hash(number: Fraction) -> int:
    """Return the hash of a fraction as the page "Hashing of numeric types" of Python's library defines it."""
    modulus = 2**61 - 1
    if number.denominator % modulus == 0:
        return 314159
    hashed = abs(number.numerator) % modulus * pow(number.denominator, modulus - 2, modulus) % modulus
    return -2 if number < 0 and hashed == 1 else hashed if number >= 0 else -hashed


@law_settings(200)
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(0.1)
@example(5e-324)
@example(1 / (2**61 - 1))
def test_the_hash_of_a_float_is_the_documented_one(number: float) -> None:
    """Neither the processor nor a library has a part in it: it is whole-number arithmetic on the exact fraction."""
    exact = Fraction(number)
    assert stable_hash(number) == stable_hash(exact.numerator if exact.denominator == 1 else documented_hash(exact))


# ---------------------------------------------------------------------- records


def test_records_hash_as_ever() -> None:
    """Rows, lists, sets, arrays, objects of classes, and what can be a key."""
    assert len(RECORDS) > 40
    assert changed(RECORDS, [record_hash(record) for record, _ in RECORDS]) == []
    assert changed(KEYS, [record_hash(key) for key, _ in KEYS]) == []


def test_tables_hash_as_ever() -> None:
    """A row of a table hashes as the dict of it."""
    rows = [
        case for case in RECORDS if type(case[0]) is dict and all(isinstance(name, str) for name in case[0]) and case[0]
    ]
    tables = [(pa.Table.from_pylist([row]), (row, wanted)) for row, wanted in rows if _is_columnar(row)]
    assert len(tables) > 5
    assert all(records(table) == [row] for table, (row, _) in tables)
    assert changed([case for _, case in tables], [int(record_hashes(table)[0]) for table, _ in tables]) == []


def _is_columnar(row: dict[str, Any]) -> bool:
    return all(isinstance(value, int | float | str | bytes | list | dict | dt.date | None) for value in row.values())


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u4", "u8", "?"])
def test_arrays_of_records_hash_as_ever(dtype: str) -> None:
    """Whole numbers are hashed all at once."""
    cases = [case for case in KEYS if type(case[0]) in {int, bool} and case[0] in (0, 1)]
    array = np.array([key for key, _ in cases]).astype(dtype)
    assert changed(cases, [int(hashed) for hashed in record_hashes(array)]) == []
