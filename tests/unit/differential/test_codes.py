"""Codes are equal where values are, also after values of other kinds have come, and interned values are forgotten."""

import pickle
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.differential import codes as codes_module
from tidewheel.differential.codes import Codes
from tidewheel.differential.records import Column, column_of, row_column, values_of

VALUES = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.text(max_size=2),
    st.none(),
    st.tuples(st.integers(0, 3)),
)
COLUMNS = st.one_of(
    st.lists(st.integers(-5, 5), min_size=1),
    st.lists(st.floats(), min_size=1),
    st.lists(VALUES, min_size=1),
)

NOON = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - rows of tables have such


def same(one: Any, other: Any) -> bool:
    return bool(one == other or repr(one) == repr(other) == "nan")


@law_settings(40)
@given(st.lists(COLUMNS, max_size=4))
def test_codes_are_equal_where_values_are(columns: list[list[Any]]) -> None:
    """Also those that were made before values of another kind came."""
    codes, kept = Codes(), [np.empty(0, np.int64)]

    def translate(change: Any) -> None:
        kept[:] = [change(one) for one in kept]

    for column in columns:
        made = codes.encode([column_of(column)], translate)
        kept.append(made)
    values = [value for column in columns for value in column]
    found = np.concatenate(kept)
    decoded = codes.decode(found)[0].tolist()
    assert all(map(same, decoded, values))
    for number, value in enumerate(values):
        for other, code in zip(values, found, strict=True):
            assert same(value, other) == (code == found[number])


def rows_of(parts: list[list[Any]]) -> Column:
    return row_column([column_of(part) for part in parts])


def tables(columns: int) -> st.SearchStrategy[list[list[Any]]]:
    """Return what makes tables of some rows, each column of one kind of values or of several."""
    return st.integers(1, 5).flatmap(
        lambda rows: st.lists(
            st.one_of(
                st.lists(st.integers(-2, 2), min_size=rows, max_size=rows),
                st.lists(st.sampled_from((0.0, -0.0, 1.0, float("nan"), 0.5)), min_size=rows, max_size=rows),
                st.lists(
                    st.sampled_from(("a", "b", None, 1, True, 1.0, float("nan"), Decimal(1), NOON)),
                    min_size=rows,
                    max_size=rows,
                ),
            ),
            min_size=columns,
            max_size=columns,
        )
    )


def as_one(value: Any) -> Any:
    """Return a value that equals another one where the two are equal, or are both NaN."""
    return tuple(map(as_one, value)) if isinstance(value, tuple) else "NaN" if value != value else value  # noqa: PLR0124


@law_settings(100)
@given(st.lists(tables(3), min_size=1, max_size=4), st.booleans(), st.sampled_from(("rows", "pairs", "objects")))
def test_codes_of_rows_are_equal_where_these_are(made: list[list[list[Any]]], is_swept: bool, last: str) -> None:
    """As those of tuples, whatever types the columns have, and in the end with tuples among them."""
    codes, kept, values = Codes(), [np.empty(0, np.int64)], list[Any]()

    def translate(change: Any) -> None:
        kept[:] = [change(one) for one in kept]

    for number, parts in enumerate(made):
        rows = rows_of(parts)
        columns = [rows]
        if last == "pairs":
            columns = [column_of(parts[0]), rows_of(parts[1:])]
        if last == "objects" and number == len(made) - 1:
            columns = [column_of(rows.tolist())]
        kept.append(codes.encode(columns, translate))
        values += map(as_one, zip(*parts, strict=True))
        if is_swept:
            codes.sweep(np.concatenate(kept))
            codes = pickle.loads(pickle.dumps(codes))
    found = np.concatenate(kept)
    decoded = [values_of(one) for one in codes.decode(found)]
    flat = decoded[0] if len(decoded) == 1 else [(key, *row) for key, row in zip(*decoded, strict=True)]
    assert list(map(as_one, flat)) == values
    for one, code in zip(values, found.tolist(), strict=True):
        assert [one == other for other in values] == (found == code).tolist()
    assert codes.kind == {"rows": (3,), "pairs": (0, 2), "objects": "object"}[last]


def test_rows_out_of_use_are_forgotten() -> None:
    """With the values of their parts."""
    codes = Codes()
    words = [f"word {n}" for n in range(2000)]
    found = codes.encode([rows_of([words, list(range(2000))])])
    codes.sweep(found[:10])
    assert (len(codes), len(codes._fields[0])) == (10, 10)
    again = codes.encode([rows_of([words[5:20], list(range(5, 20))])])
    assert again[:5].tolist() == found[5:10].tolist()
    assert codes.decode(again)[0].tolist() == [(words[n], n) for n in range(5, 20)]


@law_settings(40)
@given(st.lists(COLUMNS, min_size=1, max_size=3), st.lists(VALUES, max_size=5))
def test_pickled_codes_are_the_same(columns: list[list[Any]], kept: list[Any]) -> None:
    """Those of all values, NaN too, and what was forgotten is not there."""
    codes = Codes()
    for column in [*columns, ["a", None]]:
        codes.encode([column_of(column)], lambda _: None)
    used = codes.encode([column_of(kept)])
    codes.sweep(used)
    again = pickle.loads(pickle.dumps(codes))
    assert again.encode([column_of(kept)]).tolist() == used.tolist()
    assert (again.kind, len(again)) == (codes.kind, len(codes))
    more = ["b", "c", *kept]
    assert all(map(same, again.decode(again.encode([column_of(more)]))[0], more))


def test_pickled_codes_share_what_has_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a snapshot writes only the parts of the table that have new values, also in the place of forgotten ones."""
    monkeypatch.setattr(codes_module, "_TOGETHER", 10)
    codes = Codes()
    codes.encode([column_of([f"{number}" for number in range(35)])])
    first = codes.__getstate__()[2]
    codes.encode([column_of(["new"])])
    second = codes.__getstate__()[2]
    assert [one is other for one, other in zip(first, second, strict=True)] == [True, True, True, False]
    codes.sweep(np.array([*range(15), *range(16, 36)]))
    codes.encode([column_of(["another"])])
    third = codes.__getstate__()[2]
    assert [one is other for one, other in zip(second, third, strict=True)] == [True, False, True, True]
    assert pickle.loads(pickle.dumps(codes)).decode(np.array([15]))[0].tolist() == ["another"]


@law_settings(40)
@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_codes_of_floats_are_in_order(values: list[float]) -> None:
    found = Codes().encode([column_of(values)])
    assert [values[n] for n in np.argsort(found, kind="stable")] == sorted(values)


@law_settings(40)
@given(st.lists(st.tuples(st.integers(-(2**33), 2**33), st.integers(-(2**33), 2**33)), min_size=1))
def test_pairs_of_numbers_keep_their_values(pairs: list[tuple[int, int]]) -> None:
    """Of 32 bits each they make one code, else they are interned."""
    codes = Codes()
    found = codes.encode([column_of(list(part)) for part in zip(*pairs, strict=True)])
    decoded = codes.decode(found)
    assert (codes.kind == "pair") == all(-(2**31) <= number < 2**31 for pair in pairs for number in pair)
    assert list(zip(*(one.tolist() for one in decoded)) if len(decoded) == 2 else decoded[0].tolist()) == pairs  # noqa: B905
    assert len(set(found.tolist())) == len(set(pairs))


def test_a_nan_is_found_again() -> None:
    """Also in a tuple, such as that of a row, and where it comes from another process and is another object."""
    codes = Codes()
    found = [codes.encode([column_of(["x", float("nan"), ("x", (float("nan"), 1))])]) for _ in range(2)]
    again = pickle.loads(pickle.dumps([codes.decode(found[0])]))[0]
    assert found[0].tolist() == found[1].tolist() == codes.encode(again).tolist()
    assert len(codes) == 3


def test_values_out_of_use_are_forgotten() -> None:
    """The numbers of those are given to new ones."""
    codes = Codes()
    first = codes.encode([column_of([f"word {n}" for n in range(2000)])])
    assert codes.wants_sweep
    codes.sweep(first[:10])
    assert len(codes) == 10
    assert len(codes) == len(first[:10])
    again = codes.encode([column_of([f"new {n}" for n in range(1990)])])
    assert again.max() < 2000
    assert codes.decode(first[:10])[0].tolist() == [f"word {n}" for n in range(10)]


def test_values_that_cannot_be_hashed_are_refused() -> None:
    with raises(TypeError):
        Codes().encode([column_of([([1], 2)])])
