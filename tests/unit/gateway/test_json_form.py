"""Times and records as JSON."""

import enum
import json
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.gateway.json_form import encode_json
from tidewheel.progress import TidewheelError


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class City:
    name: str
    size: float


class Text(str):
    __slots__ = ()


class Colour(enum.Enum):
    RED = "red"


NANOSECONDS = np.array(["2024-05-01T10:00", "NaT"], dtype="M8[ns]")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (np.float64("nan"), None),
        (np.float32(1.5), 1.5),
        (np.int64(3), 3),
        (np.uint8(200), 200),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(["a", None], dtype=object), ["a", None]),
        (np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f4")])[0], [1, 2.5]),
        (np.longdouble(1.5), "1.5"),
        (np.datetime64("2024-05-01"), "2024-05-01"),
        (NANOSECONDS, ["2024-05-01T10:00:00.000000000", None]),
        (pd.Timestamp("2024-05-01 10:00"), "2024-05-01T10:00:00"),
        (pd.NaT, None),
        (pd.NA, None),
        (datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01T00:00:00Z"),
        (date(2024, 5, 1), "2024-05-01"),
        (b"\x00\xff", "AP8="),
        (bytearray(b"a"), "YQ=="),
        (Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        (Text("a"), "a"),
        (City("Oslo", float("nan")), {"name": "Oslo", "size": None}),
        (Point(1, 2), [1, 2]),
        ((0, 3), [0, 3]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({(1, 2): 3, None: 4, 5: 6}, {"(1, 2)": 3, "None": 4, "5": 6}),
        (2**80, 2**80),
        (1j, "1j"),
        (range(2), "range(0, 2)"),
    ],
    ids=range(32),
)
def test_every_value_has_a_form(value: Any, expected: Any) -> None:
    """As Python's own value where there is one, and as text otherwise; what is no number is null."""
    assert json.loads(encode_json({"value": [value]})) == {"value": [expected]}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_form_is_one_line(text: str) -> None:
    """A line break would end the data of a Server-Sent Event."""
    encoded = encode_json({text: text})
    assert not set(b"\r\n\0") & set(encoded)
    assert json.loads(encoded) == {text: text}


def test_what_has_no_form_is_an_error_that_says_why() -> None:
    """And never half a message."""
    endless: list[Any] = []
    endless.append(endless)

    class Shy:
        def __str__(self) -> str:
            raise RuntimeError("no")

    for value, why in ((endless, "RecursionError"), ("\ud800", "UnicodeEncodeError"), (Shy(), "RuntimeError: no")):
        with pytest.raises(TidewheelError, match=f"cannot be shown as JSON .*{why}"):
            encode_json({"n": value})
