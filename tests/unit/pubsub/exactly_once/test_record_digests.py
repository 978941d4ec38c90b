"""Digests of records: equal content has equal sums, and other content has not."""

import dataclasses
import datetime
import decimal
import enum
import math
from collections import OrderedDict, defaultdict
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.record_digests import MODULUS, digest_of, digests, record_digest, rounded
from tidewheel.pubsub.messages.encoded_message import encode, encode_batch
from tidewheel.pubsub.messages.wire import DataMessage


def total(*batches: Any) -> int:
    return sum(digest_of(encode(encode_batch(0, batch))) for batch in batches) % MODULUS


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Reading:
    sensor: str
    values: dict[str, Any]


class Tags(set[int]):
    pass


class Stubborn:
    def __reduce_ex__(self, _: object) -> Any:
        raise ValueError("it cannot be taken apart")


RECORDS = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False) | st.binary(max_size=3),
    lambda parts: st.lists(parts, max_size=3) | st.tuples(parts, parts) | st.dictionaries(st.text(max_size=2), parts),
)


@given(records=st.lists(RECORDS, max_size=8), seed=st.integers(0, 99))
def test_neither_order_nor_batches_matter(records: list[Any], seed: int) -> None:
    """A list that is shuffled and cut anywhere has the same sum."""
    random = Random(seed)
    shuffled = random.sample(records, len(records))
    cut = random.randint(0, len(records))
    assert total(records) == total(shuffled[:cut], shuffled[cut:])


def test_a_record_more_or_another_one_is_found() -> None:
    """Also where the values only change places, or a record comes twice."""
    contents = ([("a", 1), ("b", 2)], [("a", 2), ("b", 1)], [("a", 1)], [("a", 1), ("b", 2), ("b", 2)], [["a", 1]])
    assert len({total(content) for content in contents}) == len(contents)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({1, 2, 3}, {3, 2, 1}),
        (Reading("x", {"a": 1, "b": 2}), Reading("x", {"b": 2, "a": 1})),
        (defaultdict(int, a=1, b=2), defaultdict(int, b=2, a=1)),
        (Tags([1, 9, 17]), Tags([17, 9, 1])),
        (np.int64(7), 7),
        (np.array([1.5, 2.5]), np.array([1.5, 2.5])),
        (sum([0.1] * 10), 1.0),
        (("a" * 3, "aaa"), ("aaa", "aaa")),
    ],
)
def test_equal_records_have_one_digest(one: Any, other: Any) -> None:
    """However they came about."""
    assert record_digest(one) == record_digest(other)


def test_kinds_of_records_are_told_apart() -> None:
    """Also objects of classes, by what they have."""
    day = datetime.date(2026, 1, 2)
    kinds = [Colour.RED, Colour.BLUE, decimal.Decimal("1.5"), decimal.Decimal("1.6"), day, datetime.timedelta(1)]
    kinds += [OrderedDict(a=1, b=2), OrderedDict(b=2, a=1), defaultdict(int, a=1), Tags([1]), Tags([2])]
    kinds += [Reading("x", {}), Reading("y", {}), {}, [], (), set(), None, "", b"", 0, Reading, rounded, math.inf]
    assert len({record_digest(kind) for kind in kinds}) == len(kinds)
    assert record_digest(Stubborn()) == record_digest(Stubborn())


@given(number=st.floats(-1e12, 1e12), noise=st.floats(-1e-12, 1e-12))
def test_floating_point_numbers_are_told_apart_by_some_digits(number: float, noise: float) -> None:
    """Another 1 in 1,000 is seen, and of what only noise makes of a round number nothing is."""
    round_number = round(number, 2)
    assert rounded(round_number) == rounded(round_number * (1 + noise))
    if abs(number) > 1e-6:
        assert rounded(number) != rounded(number * 1.001)


@given(parts=st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_sums_that_cancel_out_need_a_sum_that_does_not_depend_on_the_order(parts: list[int], seed: int) -> None:
    """What is left of them has few digits of its own. `math.fsum` is what the documentation advises."""
    numbers = [*(part / 10 for part in parts), *(-part / 10 for part in parts), 0.1]
    shuffled = Random(seed).sample(numbers, len(numbers))
    assert rounded(math.fsum(numbers)) == rounded(math.fsum(shuffled)) == rounded(0.1)
    assert rounded(1e15 + 0.1 - 1e15) != rounded(1e15 - 1e15 + 0.1)  # as `sum` does before Python 3.12


def test_rows_of_tables_have_digests() -> None:
    """The order of rows does not matter, with nulls, texts and lists; another value is seen."""
    rows = [
        {"n": n, "m": n or None, "f": n / 10 * 3 / 3, "t": str(n % 3), "l": [n], "b": n % 2 == 0, "d": {"x": n}}
        for n in range(50)
    ]
    shuffled = Random(1).sample(rows, len(rows))
    table, other = pa.Table.from_pylist(rows), pa.Table.from_pylist(shuffled)
    assert total(table) == total(other.slice(0, 20), other.slice(20)) == total(*other.to_batches(max_chunksize=7))
    changes: dict[str, Any] = {"n": 99, "m": None, "f": 0.31, "t": "x", "l": [], "b": False, "d": {"x": None}}
    for name, value in changes.items():
        changed = pa.Table.from_pylist([*rows[:-2], {**rows[-2], name: value}, rows[-1]], schema=table.schema)
        assert total(changed) != total(table), name
    assert total(pa.table({"f": [0.1 + 0.2, None]})) == total(pa.table({"f": [None, 0.3]}))


def test_rows_have_their_columns_by_name() -> None:
    """Columns in another order are the same row, and a column of another name is not."""
    table = pa.table({"a": [1, 2], "b": [2, 1]})
    assert total(table) == total(table.select(["b", "a"]))
    assert total(table) != total(table.rename_columns(["a", "c"])) != total(table.rename_columns(["b", "a"]))


@pytest.mark.parametrize("values", [[1, None], [0.5, None], ["x", None], [[1], None], [True, None]])
def test_a_batch_that_has_only_nulls_has_no_other_rows(values: list[Any]) -> None:
    """Arrow finds no type for a column of nulls, which depends on where an epoch is cut."""
    rows = [{"n": n, "v": value} for n, value in enumerate(values)]
    cut = [pa.Table.from_pylist([row]) for row in rows]
    assert cut[1].schema.field("v").type == pa.null()
    assert total(pa.Table.from_pylist(rows)) == total(*cut)


def test_records_of_digests_can_be_fetched() -> None:
    """So that an error can show one; bytes that do not decode are an error."""
    for batch, expected in (["a", "b"], "b"), (np.array([1, 2]), 2), (pa.table({"n": [1, 2]}), {"n": 2}):
        all_of, record = digests(encode(encode_batch(0, batch)))
        assert (len(all_of), record(1)) == (2, expected)
    with pytest.raises(DeliveryError):
        digest_of(encode(DataMessage(0, b"?", "pickle", 1)))
