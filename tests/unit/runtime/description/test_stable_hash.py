"""Hashes of keys, one at a time: the same for equal keys of any types, in every process."""

import datetime as dt
import enum
import json
import math
import os
import subprocess
import sys
import zlib
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.runtime.description.stable_hash import checksums, hash_column, hash_keys, stable_hash


class Level(enum.IntEnum):
    LOW = 7


class Word(enum.StrEnum):
    ALPHA = "alpha"


def integers_like(number: int) -> list[Any]:
    """Return keys of built-in and NumPy types that Python holds equal to ``number``."""
    widths = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
    fitting = [width(number) for width in widths if np.iinfo(width).min <= number <= np.iinfo(width).max]
    exact = [float(number), np.float64(number)] if abs(number) < 2**1000 and int(float(number)) == number else []
    return [number, *fitting, *exact, *([bool(number)] if number in {0, 1} else [])]


@law_settings(200)
@given(st.integers() | st.integers(-(2**70), 2**70) | st.integers(-63, 70).map(lambda power: int(2.0**power)))
@example(-1)
@example(2**61 - 1)
@example(2**63)
@example(2**64 - 1)
@example(2**80)
def test_equal_integers_of_different_types_hash_alike(number: int) -> None:
    """A whole number has one hash, be it an int, a bool, a float or a NumPy scalar, however great it is."""
    assert {stable_hash(key) for key in integers_like(number)} == {stable_hash(number)}


@law_settings(100)
@given(st.integers(-(2**10), 2**10), st.integers(1, 10))
def test_equal_fractions_of_different_types_hash_alike(numerator: int, power: int) -> None:
    """A fraction that all kinds of numbers can hold exactly has one hash."""
    number = Fraction(2 * numerator + 1, 2**power)
    alike = [number, float(number), Decimal(number.numerator) / Decimal(number.denominator), complex(float(number))]
    alike += [np.float32(float(number)), np.float64(float(number))]
    assert all(key == number for key in alike)
    assert len({stable_hash(key) for key in alike}) == 1


@law_settings(50)
@given(st.integers(-(2**70), 2**70))
@example(-1)
@example(2**61)
def test_equal_whole_numbers_of_rarer_types_hash_alike(number: int) -> None:
    """Decimals (Arrow's and Spark's), fractions, complex numbers and short floats meet the int they are equal to."""
    alike: list[Any] = [Decimal(number), Fraction(number)]
    alike += [kind(number) for kind in (complex, np.float32, np.complex128) if int(kind(number).real) == number]
    assert {stable_hash(key) for key in alike} == {stable_hash(number)}


UTC_NOON = dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)
MIDNIGHT = dt.datetime.fromisoformat("2024-06-01")
EQUAL_KEYS: dict[str, list[Any]] = {
    "zeros": [0, 0.0, -0.0, False, np.float32(-0.0), np.uint8(0), Decimal("-0"), Decimal("0.00")],
    "infinities": [math.inf, np.float64(math.inf), np.float32(math.inf), Decimal("Infinity")],
    "decimals": [Decimal("2.50"), Decimal("2.5"), 2.5, Fraction(5, 2)],
    "strings": ["alpha", np.str_("alpha"), Word.ALPHA],
    "bytes": [b"ab", np.bytes_(b"ab")],
    "moments": [UTC_NOON, UTC_NOON.astimezone(ZoneInfo("Europe/Paris")), pd.Timestamp(UTC_NOON)],
    "local times": [MIDNIGHT, MIDNIGHT.replace(fold=1), pd.Timestamp("2024-06-01")],
    "durations": [dt.timedelta(days=1), dt.timedelta(hours=24), pd.Timedelta(1, "d")],
    "tuples": [(1, "a", None), (1.0, np.str_("a"), None), (True, Word("alpha")[:1], None)],
    "nested tuples": [((1, 2), 3), ((1.0, np.int8(2)), 3)],
    "members of enums": [Level.LOW, 7],
    "NumPy's truth": [True, 1, np.True_],
    "NumPy's dates": [np.datetime64("2024-06-01", "D"), np.datetime64("2024-06-01", "us")],
    "NumPy's short and fine moments": [np.datetime64("2024-06-01", "us"), np.datetime64("2024-06-01", "ns")],
    "NumPy's moments and Python's": [np.datetime64("2024-06-01T00", "us"), MIDNIGHT],
    "NumPy's durations": [np.timedelta64(1, "s"), np.timedelta64(1000, "ms")],
    "times of day in two zones": [dt.time(12, tzinfo=dt.UTC), dt.time(13, tzinfo=dt.timezone(dt.timedelta(hours=1)))],
}


@pytest.mark.parametrize("name", EQUAL_KEYS)
def test_keys_that_python_holds_equal_hash_alike(name: str) -> None:
    """Equal keys have one owner, whatever their types."""
    keys = EQUAL_KEYS[name]
    assert all(key == keys[0] for key in keys)
    assert {stable_hash(key) for key in keys} == {stable_hash(keys[0])}


def test_a_date_of_numpy_meets_that_of_python() -> None:
    """NumPy holds its date equal to Python's and to its midnight, so all three have one owner."""
    keys = [np.datetime64("2024-06-01"), dt.date(2024, 6, 1), np.datetime64("2024-06-01T00:00:00")]
    assert all(key == keys[0] for key in keys)
    assert {stable_hash(key) for key in keys} == {stable_hash(keys[0])}


PLAIN_KEYS = st.one_of(
    st.none(), st.integers(), st.text(max_size=6), st.binary(max_size=6), st.dates(), st.uuids(), st.floats(width=32)
)


@law_settings(100)
@given(st.lists(PLAIN_KEYS, max_size=3).map(tuple))
def test_a_hash_is_a_word_of_64_bits(key: tuple[Any, ...]) -> None:
    """It is an unsigned integer, and asking again gives the same."""
    assert 0 <= stable_hash(key) < 2**64
    assert stable_hash(key) == stable_hash(key)


def test_different_keys_hash_differently() -> None:
    """Regular keys, and keys that look alike, are told apart."""
    keys: list[Any] = [*range(-500, 500), *(f"key-{n}" for n in range(500)), *((n,) for n in range(50))]
    keys += [None, "None", (), ((),), (None,), ("a", "b"), ("b", "a"), ("ab",), 0.5, math.nan, math.inf, -math.inf]
    keys += [(1, (2, 3)), ((1, 2), 3), (1, 2, 3), dt.date(2024, 6, 1), UTC_NOON, dt.time(12)]
    assert len({stable_hash(key) for key in keys}) == len(keys)


FAMILIES: dict[str, list[Any]] = {
    "integers": list(range(1000)),
    "negative integers": list(range(-1000, 0)),
    "multiples": list(range(0, 1024_000, 1024)),
    "shifted integers": [number << 40 for number in range(1000)],
    "halves": [number / 2 for number in range(1000)],
    "cents": [Decimal(number) / 100 for number in range(1000)],
    "texts": [f"user-{number}" for number in range(1000)],
    "pairs": [(number % 40, number // 40) for number in range(1000)],
    "days": [dt.date(2024, 6, 1) + dt.timedelta(number) for number in range(1000)],
    "moments": [UTC_NOON + dt.timedelta(hours=number) for number in range(1000)],
}


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("family", FAMILIES)
def test_regular_keys_are_spread_over_all_workers(family: str, workers: int) -> None:
    """No worker gets half as much again as its share, however alike the keys are."""
    shares = Counter(stable_hash(key) % workers for key in FAMILIES[family])
    assert len(shares) == workers
    assert max(shares.values()) < 1.5 * 1000 / workers


@pytest.mark.parametrize(
    "key", [[1], {}, {1}, frozenset(), object(), bytearray(b"a"), (1, [2]), int, {"n": 1}, range(2)]
)
def test_other_types_are_refused(key: Any) -> None:
    """What has no stable hash is an error that names the type and those that will do, also inside a tuple."""
    with pytest.raises(TypeError, match=r"of type \w+ cannot be a key: a key is None, a number, a string"):
        stable_hash(key)


KEYS_AS_CODE = """[
    None, True, 0, -1, 2**80, 0.1, -0.0, math.inf, math.nan, "text", "\\ud800", "", b"bytes", (1, ("a", None)),
    Decimal("0.1"), Fraction(1, 3), 1j, dt.date(2024, 6, 1), dt.datetime(2024, 6, 1, 12, fold=1), dt.time(1, 2),
    dt.datetime(2024, 6, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))), dt.timedelta(days=-1), uuid.UUID(int=5),
]"""
IMPORTS_FOR_KEYS = """
import datetime as dt, json, math, uuid
from decimal import Decimal
from fractions import Fraction
from tidewheel.runtime.description.stable_hash import stable_hash
"""


def in_another_process(keys: str, hash_seed: int) -> list[int]:
    """Return the hashes of ``keys``, given as code, in a new interpreter whose own hashes differ."""
    code = f"{IMPORTS_FOR_KEYS}\nprint(json.dumps([stable_hash(key) for key in {keys}]))"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=60)
    found: list[int] = json.loads(done.stdout)
    return found


def test_hashes_are_the_same_in_every_process() -> None:
    """Whatever seed an interpreter hashes its strings with, every process sends a key to the same worker."""
    names: dict[str, Any] = {}
    exec(IMPORTS_FOR_KEYS, names)
    here = [stable_hash(key) for key in eval(KEYS_AS_CODE, names)]
    assert in_another_process(KEYS_AS_CODE, 1) == here
    assert in_another_process(KEYS_AS_CODE, 2) == here


@pytest.mark.parametrize("nan", [Decimal("NaN"), complex(math.nan, 0), np.float32(math.nan), np.float16(math.nan)])
def test_every_nan_is_the_same_key(nan: Any) -> None:
    """Keys that are not a number have one owner too, whatever their type: that of NaN in a column of Arrow."""
    assert stable_hash(nan) == stable_hash(math.nan)


def test_a_moment_that_is_none_is_a_key() -> None:
    """What pandas has for a missing moment is a key like any other, the same in every process."""
    assert stable_hash(pd.NaT) == stable_hash(pd.NaT)


STRINGS = st.lists(st.binary(max_size=30) | st.binary(min_size=250, max_size=300), max_size=12)
TEXTS = st.lists(st.text(max_size=30), max_size=12)


@given(STRINGS)
def test_they_are_zlibs(strings: list[bytes]) -> None:
    """Whatever the bytes, for strings of any length, empty ones too."""
    lengths = np.array([len(string) for string in strings], dtype=np.int64)
    expected = [zlib.crc32(string) << 32 | zlib.adler32(string) for string in strings]
    assert checksums(b"".join(strings), lengths).tolist() == expected


def test_long_strings_do_not_overflow() -> None:
    """The greatest sums that there can be, about the length from which on strings are done one by one."""
    strings = [b"\xff" * length for length in range(600)]
    expected = [zlib.crc32(string) << 32 | zlib.adler32(string) for string in strings]
    assert checksums(b"".join(strings), np.arange(600)).tolist() == expected


@given(TEXTS, st.booleans())
def test_many_keys_hash_as_each_does(texts: list[str], mixed: bool) -> None:
    """A long list of strings, ASCII or not, and one with other keys among them."""
    keys: list[object] = [*texts * 300, *([1, None] if mixed else [])]
    assert list(hash_keys(keys)) == list(map(stable_hash, keys))


@given(TEXTS, st.sampled_from([pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]), st.integers(0, 5))
def test_columns_hash_as_their_values_do(texts: list[str], kind: pa.DataType, start: int) -> None:
    """Strings and bytes, with small and large offsets, also a slice of a column and one with nulls."""
    values = [None if text == "0" else text.encode() if "binary" in str(kind) else text for text in texts]
    column = pa.array(values, kind)[start:]
    assert hash_column(column).tolist() == [stable_hash(value) for value in values[start:]]
    encoded = pa.DictionaryArray.from_arrays(pa.array(range(len(column)), pa.int32()), column)
    assert hash_column(encoded).tolist() == hash_column(column).tolist()
