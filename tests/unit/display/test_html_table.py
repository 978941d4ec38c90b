"""The first records of some batches as a table in a notebook."""

import html.parser
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.display.html_table import MOST_COLUMNS, MOST_ROWS, MOST_SIGNS, html_table


class _Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.caption = ""
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1][-1] += data
        else:
            self.caption += data


def read(text: str) -> _Reader:
    """Return what a browser finds in a table."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.tags <= {"table", "caption", "tr", "th", "td"}
    return reader


@pytest.mark.parametrize(
    ("batch", "rows"),
    [
        ([1, "a", None], [["record"], ["1"], ["a"], ["None"]]),
        ([("a", 1)], [["record"], ["('a', 1)"]]),
        ([{"a": 1}, {"b": 2}], [["a", "b"], ["1", ""], ["", "2"]]),
        ([{"a": 1}, 7], [["record"], ["{'a': 1}"], ["7"]]),
        (pa.table({"x": [1, 2], "y": ["p", None]}), [["x", "y"], ["1", "p"], ["2", "None"]]),
        (pa.record_batch({"x": [0.5]}), [["x"], ["0.5"]]),
        (np.array([1.5, 2.0]), [["record"], ["1.5"], ["2.0"]]),
        ([], []),
    ],
    ids=["plain", "tuples", "dicts", "mixed", "table", "record batch", "array", "empty"],
)
def test_each_kind_of_batch_has_rows(batch: Any, rows: list[list[str]]) -> None:
    """Columns where all records have some, one cell otherwise."""
    assert read(html_table("t", [(None, batch)], len(batch))).rows == rows


def test_what_records_hold_is_text() -> None:
    """A record cannot bring scripts, or signs that nobody sees, into the notebook of its reader."""
    evil = "<script>alert(1)</script>&"
    found = read(html_table(evil, [(evil, [{evil: evil, "b": "\u202egnp\n"}])], 1))
    assert found.rows == [["time", evil, "b"], [evil, evil, "'\\u202egnp\\n'"]]
    assert evil in found.caption


def test_a_table_is_bounded() -> None:
    """In rows, columns and signs; it says how many records there are, and asks for no batch that is not shown."""
    wide = dict.fromkeys((f"column {number}" for number in range(100)), "x" * 10_000_000)

    def batches() -> Iterator[tuple[str, Any]]:
        yield "0", [wide] * (MOST_ROWS - 1)
        yield "1", [wide] * 10_000
        raise AssertionError("nobody asks for more")

    text = html_table("large", batches(), 12_345_678)
    found = read(text)
    assert len(found.rows) == MOST_ROWS + 1
    assert len(found.rows[1]) == MOST_COLUMNS + 1
    assert max(len(cell) for row in found.rows for cell in row) <= MOST_SIGNS
    assert found.caption == f"large: 12,345,678 records, of which {MOST_ROWS} are shown"
    assert [row[0] for row in found.rows] == ["time", *["0"] * (MOST_ROWS - 1), "1"]


def test_only_the_beginning_of_a_text_is_looked_at() -> None:
    """A notebook shows a record of many megabytes as fast as a short one."""

    class Text(str):
        __slots__ = ()

        def isprintable(self) -> bool:
            raise AssertionError("all of it is looked at")

    found = read(html_table("t", [(None, [Text("x" * 1000)])], 1))
    assert found.rows[1] == [f"{'x' * (MOST_SIGNS - 1)}…"]


def test_a_record_whose_repr_fails_or_is_long_is_shown() -> None:
    """A table is no place to fail."""

    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no")

    found = read(html_table("t", [(None, [Broken(), list(range(100_000))])], 2))
    assert "Broken" in found.rows[1][0]
    assert len(found.rows[2][0]) <= MOST_SIGNS
