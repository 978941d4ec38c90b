"""The filter of the records that a client wants."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.gateway import BadRequest, Comparison, RecordFilter
from tidewheel.gateway.record_filter import LONGEST, MOST


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class City:
    name: str
    _secret: int = 0

    @property
    def upper(self) -> str:
        raise AssertionError("a client has called a property")


class Trip(msgspec.Struct):
    fare: float


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n>1", Comparison("n", ">", 1)),
        (" n >= 1.5 ", Comparison("n", ">=", 1.5)),
        ("city==Oslo", Comparison("city", "==", "Oslo")),
        ("city==New York", Comparison("city", "==", "New York")),
        ('zip=="0150"', Comparison("zip", "==", "0150")),
        ('"zip" == "0150" ', Comparison("zip", "==", "0150")),
        ("zip==0150", Comparison("zip", "==", "0150")),
        ("url!=http://a/?b=c", Comparison("url", "!=", "http://a/?b=c")),
        ("open==true", Comparison("open", "==", True)),
        ("gone!=null", Comparison("gone", "!=", None)),
        ("text==", Comparison("text", "==", "")),
        ("record<3", Comparison(None, "<", 3)),
        ('"record"<3', Comparison("record", "<", 3)),
        (r'"a \"b\" > c"==1', Comparison('a "b" > c', "==", 1)),
        ('"record.n">1', Comparison("record.n", ">", 1)),
        ("records[0]>1", Comparison("records[0]", ">", 1)),
        ("straße==ß", Comparison("straße", "==", "ß")),
        ("1>2", Comparison("1", ">", 2)),
        ("n==nan", Comparison("n", "==", "nan")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_conditions_are_taken_apart(text: str, expected: Comparison) -> None:
    """Field, operator and value; blanks around them do not matter."""
    assert Comparison.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "at its end: the name of a field is missing"),
        ("n", "at its end: one of == != < <= > >= is missing"),
        ("n=1", "is no condition: at character 2, '=1': one of == != < <= > >= is missing. Write it as FIELD==VALUE"),
        ("n=>1", "at character 2, '=>1'"),
        ("city is Oslo", "at its end: one of == != < <= > >= is missing"),
        ('a"b==1', "at character 2, '\"b==1': one of"),
        (">1", "at character 1, '>1': the name of a field is missing"),
        (' "n>1', "at character 2, '\"n>1': the name of a field has no end"),
        ("  ==1", "at character 3, '==1': the name of a field is missing"),
        (r' "\x"==1', "at character 2, '\"\\\\x\"==1': the field's name is no JSON text"),
        ('n== "Oslo', "at character 5, '\"Oslo': the value is no JSON text"),
        ("n==[1]", "at character 4, '[1]': a value is a number, a text, true, false or null"),
        ('n=={"a":1}', "a number, a text, true, false or null"),
        ("n <null", "at character 3, '<null': nothing is less or greater than null"),
        (" record['n'] > 1", "at character 2, \"record['n'] > 1\": a condition is not Python: give the name alone"),
        ("record.n>1", "at character 1, 'record.n>1': a condition is not Python"),
        ("n==" + "x" * LONGEST, "1,003 characters"),
    ],
    ids=range(17),
)
def test_what_is_no_condition_says_so(text: str, says: str) -> None:
    """One error that says where it is wrong, what is, and how it is written."""
    with pytest.raises(BadRequest) as caught:
        Comparison.parse(text)
    assert says in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_an_error_of_ours(text: str) -> None:
    """Nothing that comes over the network makes the parser fail in another way."""
    try:
        comparison = Comparison.parse(text)
    except BadRequest:
        return
    assert pickle.loads(pickle.dumps(comparison)) == comparison


@pytest.mark.parametrize(
    ("text", "record", "holds"),
    [
        ("n>1", {"n": 2}, True),
        ("n>1", {"n": 1}, False),
        ("n>1", {"n": np.int64(2)}, True),
        ("n>1.5", {"n": np.float32(2)}, True),
        ("n==2.0", {"n": 2}, True),
        ("n==1.1", {"n": Decimal("1.1")}, True),
        ("n!=3", {"n": float("nan")}, True),
        ("n>1", {"n": None}, False),
        ("n<=1", {"n": None}, False),
        ("n==1", {"n": None}, False),
        ("n!=1", {"n": None}, True),
        ("n==null", {"n": None}, True),
        ("n!=null", {"n": 0}, True),
        ("n==null", {"n": 0}, False),
        ("n==null", {"n": pd.NaT}, True),
        ("open==true", {"open": np.bool_(True)}, True),
        ("open!=true", {"open": False}, True),
        ("city<P", {"city": "Oslo"}, True),
        ("city==Oslo", {"city": np.str_("Oslo")}, True),
        ("at>=2024-05-01", {"at": date(2024, 5, 1)}, True),
        ("at<2024-05-01T12:00", {"at": datetime(2024, 5, 1, 13)}, False),  # noqa: DTZ001  records without a zone exist
        ("at<2024-05-01T12:00Z", {"at": datetime(2024, 5, 1, 11, tzinfo=UTC)}, True),
        ("at>2024-05-01", {"at": pd.Timestamp("2024-05-02")}, True),
        ("at>2024-05-01", {"at": np.datetime64("2024-05-02")}, True),
        ("id==00000000-0000-0000-0000-000000000001", {"id": UUID(int=1)}, True),
        ("record>2", 3, True),
        ("record==a", "a", True),
        ("1>2", ("word", 3), True),
        ("0==word", ["word", 3], True),
        ("x>0", Point(1, 2), True),
        ("1>1", Point(1, 2), True),
        ("name==Oslo", City("Oslo"), True),
        ("fare>1", Trip(2.5), True),
        ('"a.b"==1', {"a.b": 1}, True),
    ],
    ids=range(34),
)
def test_records_of_every_kind_are_compared(text: str, record: Any, holds: bool) -> None:
    """By the value that Python has for them."""
    assert Comparison.parse(text).holds(record) is holds


@pytest.mark.parametrize(
    ("text", "record", "says"),
    [
        ("m>1", {"n": 1}, "there is no field 'm', but ['n']"),
        ("2>1", ("a", 1), "there is no element 2, but 2 elements, from 0"),
        ("n>1", 5, "there is no field 'n', but a int without named fields; the record itself is 'record'"),
        ("z>1", Point(1, 2), "there is no field 'z', but fields ['x', 'y']"),
        ("upper==A", City("a"), "there is no field 'upper'"),
        ("__class__==x", City("a"), "there is no field '__class__'"),
        ("__class__==x", 3, "there is no field '__class__'"),
        ("keys==x", {"n": 1}, "there is no field 'keys'"),
        ("_asdict==x", Point(1, 2), "there is no field '_asdict'"),
        ("zip==1500", {"zip": "1500"}, "'zip' is a text here, and 1500 is a number"),
        ("n==Oslo", {"n": 1}, "'n' is a number here, and 'Oslo' is a text"),
        ("n==1", {"n": True}, "'n' is true or false here, and 1 is a number"),
        ("n>1", {"n": [1]}, "'n' is a collection here"),
        ("at>1", {"at": date(2024, 5, 1)}, "'at' is a time here"),
        ("at>noon", {"at": date(2024, 5, 1)}, "Invalid isoformat string"),
        ("record==1", {"n": 1}, "record is a collection here"),
    ],
    ids=range(16),
)
def test_what_cannot_be_compared_says_so(text: str, record: Any, says: str) -> None:
    """A condition that was meant otherwise is an error, and never silently false; and nothing but data is reached."""
    with pytest.raises((ValueError, TypeError)) as caught:
        Comparison.parse(text).holds(record)
    assert says in str(caught.value)


def test_a_filter_is_all_of_its_conditions_and_travels() -> None:
    """It is pickled to the publishers, and equal ones are one to them."""
    wanted = RecordFilter.parse(["n>1", "city==Oslo"])
    assert wanted is not None
    again = pickle.loads(pickle.dumps(wanted))
    assert again == wanted
    records: list[Mapping[str, Any]] = [{"n": 2, "city": "Oslo"}, {"n": 2, "city": "Rome"}, {"n": 1, "city": "Oslo"}]
    assert [again(record) for record in records] == [True, False, False]


def test_no_conditions_are_no_filter() -> None:
    """So that publishers send what they have as it is."""
    assert RecordFilter.parse([]) is None


def test_too_many_conditions_are_refused() -> None:
    """Publishers work for every one of them."""
    assert RecordFilter.parse(["n>1"] * MOST) is not None
    with pytest.raises(BadRequest, match=f"there {MOST + 1} times"):
        RecordFilter.parse(["n>1"] * (MOST + 1))
