"""Checksums of many strings at once, against zlib's of each."""

import zlib

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.runtime.description.stable_hash import hash_column, hash_keys, stable_hash
from tidewheel.runtime.description.string_hash import checksums

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
