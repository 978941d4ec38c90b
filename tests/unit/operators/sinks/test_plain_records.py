"""Plain values as bytes: all that comes back is equal and of the same type, and nothing else is taken."""

import datetime as dt
import pickle
from collections import namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.operators.sinks.plain_records import decode, encode

_FIXED_ZONE = dt.timezone(dt.timedelta(hours=5, minutes=30))

atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
)
others = st.one_of(
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([dt.UTC, _FIXED_ZONE])),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
)


@st.composite
def scalars(draw: st.DrawFn) -> Any:
    """One value that holds no other; short in print, as what nests it is printed whole when a draw is repeated."""
    return draw(atoms | others)


keys = st.recursive(scalars(), lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=2), max_leaves=4)
values = st.recursive(
    scalars(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(st.text("ab"), inner, max_size=3),
        st.sets(keys, max_size=2),
    ),
    max_leaves=8,
)


def kinds(value: Any) -> Any:
    """Return the types of which a value is made, in its form."""
    if isinstance(value, dict):
        return dict, sorted((repr(kinds(key)), repr(kinds(part))) for key, part in value.items())
    if isinstance(value, list | tuple):
        return type(value), [kinds(part) for part in value]
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(kinds(part)) for part in value)
    return type(value)


@law_settings(200)
@given(
    st.one_of(
        st.lists(values, max_size=4),
        st.lists(st.tuples(atoms, atoms), max_size=4),
        st.lists(st.dictionaries(st.text("ab"), atoms), max_size=4),
        st.lists(atoms, max_size=4),
    )
)
def test_what_is_written_is_read(records: list[Any]) -> None:
    """Equal, and of the same types at every depth: a tuple is no list, 1 is neither 1.0 nor True."""
    found = decode(encode(records))
    assert found == records
    assert kinds(found) == kinds(records)


Point = namedtuple("Point", ["x"])  # noqa: PYI024


class Number(int):
    """An integer of somebody's own."""


@pytest.mark.parametrize("value", [object(), Point(1), Number(3), {"a": [object()]}, (1, {2: {object()}}), print])
def test_what_is_not_plain_is_refused(value: Any) -> None:
    """The error names the type, and says why and what to do; a subclass would not come back as what it is."""
    with raises(TypeError):
        encode([value])


@pytest.mark.parametrize("data", [pickle.dumps([1], 4), b"", b"x\xc1", b"x\xd4\x7f\x00", b"f\x93\x01", b"t\x91\x01"])
def test_what_are_no_records_is_refused(data: bytes) -> None:
    """A pickle among them."""
    with raises(ValueError):
        decode(data)
