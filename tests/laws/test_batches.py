"""Batches of every kind against the list of their records."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.batches.batches import check_batch, concatenate, is_arrow, length, records, scatter, take_slice

NUMBERS = st.lists(st.integers(-99, 99), max_size=8)
FIELDS = [("n", "i8"), ("text", "U4")]


def table(numbers: list[int]) -> Any:
    """Return a table of two chunks, with a null in the second column for every negative number."""
    texts = [str(number) if number >= 0 else None for number in numbers]
    half = len(numbers) // 2
    return pa.table(
        {
            "n": pa.chunked_array([numbers[:half], numbers[half:]], pa.int64()),
            "text": pa.chunked_array([texts[:half], texts[half:]], pa.string()),
        }
    )


def record_batch(numbers: list[int]) -> Any:
    return pa.record_batch({"n": pa.array(numbers, pa.int64()), "text": pa.array(map(str, numbers), pa.string())})


MAKERS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "table": table,
    "record batch": record_batch,
    "array": lambda numbers: np.array(numbers, dtype=np.int32),
    "matrix": lambda numbers: np.array(numbers, dtype=np.float64).repeat(2).reshape(-1, 2),
    "structured array": lambda numbers: np.array([(number, str(number)) for number in numbers], dtype=FIELDS),
    "objects": lambda numbers: np.array([f"<{number}>" for number in numbers], dtype=object),
}
VECTORISED = [name for name in MAKERS if name != "list"]


@pytest.mark.parametrize("kind", MAKERS)
@law_settings(20)
@given(numbers=NUMBERS)
def test_a_batch_has_its_records(kind: str, numbers: list[int]) -> None:
    """The records of a batch are Python objects, one for each number it was made of, and length counts them."""
    batch = MAKERS[kind](numbers)
    check_batch(batch)
    found = records(batch)
    assert isinstance(found, list)
    assert length(batch) == len(found) == len(numbers)
    assert is_arrow(batch) == (kind in {"table", "record batch"})
    match kind:
        case "table" | "record batch":
            assert [row["n"] for row in found] == numbers
        case "matrix":
            assert found == [[number, number] for number in numbers]
        case "structured array":
            assert found == [(number, str(number)) for number in numbers]
        case "objects":
            assert found == [f"<{number}>" for number in numbers]
        case _:
            assert found == numbers


@pytest.mark.parametrize("kind", MAKERS)
@law_settings(20)
@given(several=st.lists(NUMBERS, min_size=1, max_size=4))
def test_concatenation_is_that_of_the_records(kind: str, several: list[list[int]]) -> None:
    """Batches of one kind become one, in order; a single one is returned as it is."""
    batches = [MAKERS[kind](numbers) for numbers in several]
    whole = concatenate(batches)
    assert records(whole) == [record for batch in batches for record in records(batch)]
    assert (whole is batches[0]) == (len(batches) == 1)
    assert is_arrow(whole) == is_arrow(batches[0])


@law_settings(20)
@given(left=NUMBERS, right=NUMBERS)
def test_tables_and_record_batches_go_together(left: list[int], right: list[int]) -> None:
    """Both are Arrow: joined, they are one table."""
    whole = concatenate([table(left), record_batch(right), table(right)])
    assert [row["n"] for row in records(whole)] == [*left, *right, *right]


@pytest.mark.parametrize(("one", "other"), [("list", "table"), ("array", "list"), ("record batch", "array")])
def test_batches_of_different_kinds_become_a_list(one: str, other: str) -> None:
    """Their records, in order."""
    batches = [MAKERS[one]([1, 2]), MAKERS[other]([3])]
    assert concatenate(batches) == [record for batch in batches for record in records(batch)]


ARRAYS = st.sampled_from(
    [
        np.array([1, -2], np.int8),
        np.array([2**53 + 1], np.int64),
        np.array([2**64 - 1, 3], np.uint64),
        np.array([0.1, 2.5], np.float32),
        np.array([0.1, 1e300]),
        np.array([True, False]),
        np.array(["a", "bcd"]),
        np.array([b"a", b"bcd"]),
        np.array([1 + 2j]),
        np.array([{1: 2}, None], dtype=object),
        np.array(["2024-01-01T00:00:00"], "M8[ns]"),
        np.array(["9999-01-01"], "M8[D]"),
        np.array([[1, 2], [3, 4]]),
        np.array([[1.5]]),
    ]
)


@law_settings(200)
@given(st.lists(ARRAYS, min_size=2, max_size=4))
def test_no_value_changes_with_the_dtype(arrays: list[Any]) -> None:
    """Neither does its type: where arrays of different dtypes have no dtype with all values, records are in a list."""
    whole = concatenate(arrays)
    expected = [record for array in arrays for record in records(array)]
    assert records(whole) == expected
    assert list(map(type, records(whole))) == list(map(type, expected))


def test_arrays_stay_one_where_the_dtype_has_room() -> None:
    """Integers, floats and texts of several lengths go together, in fields too."""
    assert concatenate([np.array([1], np.int8), np.array([2], np.uint16)]).dtype == np.int32
    assert concatenate([np.array(["a"]), np.array(["abc"])]).dtype == np.dtype("U3")
    fields = [np.array([(1, "a")], [("n", kind), ("t", text)]) for kind, text in (("i4", "U1"), ("i8", "U3"))]
    assert concatenate(fields).dtype == np.dtype([("n", "i8"), ("t", "U3")])


@pytest.mark.parametrize(
    "other",
    [np.array([(1,)], [("n", "f8")]), np.array([(1,)], [("m", "i8")]), np.array([1]), np.array([(1, 2)], "i8,i8")],
)
def test_fields_that_do_not_go_together_are_refused(other: Any) -> None:
    """Their records would be tuples, in which no field has a name; the error has both dtypes."""
    with pytest.raises(
        TypeError, match=r"arrays of \[\('n', '<i8'\)\] and of .* cannot be joined: give all of them one"
    ):
        concatenate([np.array([(1,)], [("n", "i8")]), other])


def test_masked_arrays_are_refused() -> None:
    """They would lose their mask; the error says how to keep it."""
    with pytest.raises(
        TypeError, match=r"masked array .* Fill it, array.filled\(value\), or make it a column with nulls"
    ):
        check_batch(np.ma.masked_array([1, 2], [True, False]))


def test_tables_that_differ_in_what_may_be_null_go_together() -> None:
    """What may be null in one may be in all of them."""
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    for batches in ([pa.table({"n": [1]}, strict), pa.table({"n": [None]}, pa.schema({"n": pa.int64()}))],):
        for several in (batches, batches[::-1]):
            whole = concatenate(several)
            assert records(whole) == [row for batch in several for row in records(batch)]
            assert whole.schema.field("n").nullable


@law_settings(30)
@given(
    st.lists(
        st.tuples(st.sampled_from([pa.int8(), pa.uint8(), pa.int16(), pa.int32()]), st.integers(0, 90)), min_size=2
    )
)
def test_dictionaries_have_room(made: list[tuple[Any, int]]) -> None:
    """However small their indices are, which may differ: what is joined can be put in one piece and picked from."""
    batches = [
        pa.table(
            {
                "x": pa.DictionaryArray.from_arrays(
                    pa.array(range(size), kind), pa.array([f"{place} {n}" for n in range(size)], pa.string())
                )
            }
        )
        for place, (kind, size) in enumerate(made)
    ]
    whole = concatenate(batches)
    expected = [row for batch in batches for row in records(batch)]
    assert records(whole) == expected
    assert pa.types.is_dictionary(whole.schema.field("x").type)
    assert records(whole.combine_chunks().take(np.arange(len(expected)))) == expected


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (pa.table({"x": [1], "n": [1]}), r"batches with the columns \['n', 'x'\] and \['x', 'n'\] cannot be joined"),
        (pa.table({"n": [1], "x": [1.5]}), "column 'x' is int64 in one batch and double in another: cast one of them"),
        (
            pa.table({"n": [1], "x": pa.array([1]).dictionary_encode()}),
            r"column 'x' is int64 in one batch and dictionary<.* in another: cast one of them",
        ),
    ],
)
def test_tables_that_do_not_go_together_are_refused(other: Any, message: str) -> None:
    """The error names the column and says what to do."""
    with pytest.raises(TypeError, match=message):
        concatenate([pa.table({"n": [1], "x": [1]}), other])


def test_views_can_be_scattered() -> None:
    """Arrow takes no rows of string_view; their parts are of large_string."""
    batch = pa.table(
        {"n": [1, 2], "x": pa.array(["a", "b"], pa.string_view()), "y": pa.array([b"a"] * 2, pa.binary_view())}
    )
    parts = scatter(batch, np.array([0, 1]), 2)
    assert [records(part) for part in parts] == [[row] for row in records(batch)]


@pytest.mark.parametrize("kind", MAKERS)
@law_settings(20)
@given(numbers=NUMBERS, data=st.data())
def test_a_slice_is_that_of_the_records(kind: str, numbers: list[int], data: st.DataObject) -> None:
    """From start up to, not including, stop: any cut into slices can be put together again."""
    batch = MAKERS[kind](numbers)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(numbers)), max_size=3)))
    bounds = list(zip([0, *cuts], [*cuts, len(numbers)], strict=True))
    slices = [take_slice(batch, start, stop) for start, stop in bounds]
    assert [records(part) for part in slices] == [records(batch)[start:stop] for start, stop in bounds]
    assert records(concatenate(slices)) == records(batch)


def test_slices_of_columns_copy_nothing() -> None:
    """A slice of Arrow or NumPy shares its memory with the whole."""
    array = np.arange(100)
    assert np.shares_memory(array, take_slice(array, 10, 90))
    batch = record_batch(list(range(100)))
    whole, part = batch.column("n").buffers()[1], take_slice(batch, 10, 90).column("n").buffers()[1]
    assert whole.address == part.address


@pytest.mark.parametrize("kind", VECTORISED)
@law_settings(30)
@given(
    owned=st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 2)), max_size=8), spare=st.sampled_from([0, 1, 9, 300])
)
def test_scattered_records_are_with_their_owner(kind: str, owned: list[tuple[int, int]], spare: int) -> None:
    """Each part has exactly the records of its owner, in order, as a batch of the same kind; None if there are none."""
    batch = MAKERS[kind]([number for number, _ in owned])
    owners = np.array([owner for _, owner in owned], dtype=np.int64)
    parts = scatter(batch, owners, 3 + spare)
    assert len(parts) == 3 + spare
    for owner, part in enumerate(parts):
        own = [record for record, other in zip(records(batch), owners, strict=True) if other == owner]
        assert (records(part) if part is not None else []) == own
        assert part is None or type(part) is type(batch)
        assert part is not None or not own
        assert part is None or own or not owned


def test_a_batch_of_one_owner_is_not_copied() -> None:
    """Where nothing has to be split, the batch goes as it is."""
    batch = table([1, 2, 3])
    assert scatter(batch, np.array([1, 1, 1]), 3) == [None, batch, None]
    assert scatter(batch, np.array([1, 1, 1]), 3)[1] is batch


@pytest.mark.parametrize(
    "batch", [None, 1, "text", b"bytes", (1, 2), {1}, {1: 2}, range(3), iter([1]), np.array(1), pa.array([1])]
)
def test_anything_else_is_no_batch(batch: object) -> None:
    """A single record, or something that can be iterated over once, is refused: the error says what to do."""
    with pytest.raises(TypeError, match=rf"not {type(batch).__qualname__}\. .*single record"):
        check_batch(batch)
