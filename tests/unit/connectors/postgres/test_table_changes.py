"""What messages make of the records: rows by key, also when the table has changed."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.kit.messages import raises
from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.pgoutput import (
    UNCHANGED,
    Delete,
    Insert,
    Relation,
    RelationColumn,
    Truncate,
    Update,
)
from tidewheel.connectors.postgres.places import PublishedTable, TableColumn
from tidewheel.connectors.postgres.table_changes import TableChanges

HOUR, HEIGHT = RelationColumn("hour", True, 23), RelationColumn("height", False, 25)
TIDES = PublishedTable(7, "public", "tides", (TableColumn("hour", 23, 23), TableColumn("height", 25, 25)), (0,), None)


def load(table: PublishedTable, texts: Sequence[bytes | None]) -> tuple[Any, ...]:
    return tuple(None if text is None else text.decode() for text in texts)


def changes(*columns: RelationColumn, name: str = "public.tides", oid: int = 7) -> TableChanges:
    """Return what has read the message of the table as it is now."""
    made = TableChanges([TIDES], load)
    assert made.records(Relation(oid, name, columns or (HOUR, HEIGHT))) == []
    return made


@pytest.mark.parametrize(
    ("message", "records"),
    [
        (Insert(7, (b"1", None)), [("1", ("1", None))]),
        (Update(7, None, (b"1", b"low")), [("1", ("1", "low"))]),
        (Update(7, (b"1", None), (b"2", b"low")), [("1", None), ("2", ("2", "low"))]),
        (Update(7, (b"1", b"high"), (b"1", b"low")), [("1", ("1", "low"))]),
        (Delete(7, (b"1", None)), [("1", None)]),
    ],
)
def test_each_change_is_records(message: Any, records: list[tuple[str, Any]]) -> None:
    """An update of the key deletes the row of the old one."""
    assert changes().records(message) == [(("public.tides", key), row) for key, row in records]


def test_a_value_that_the_log_leaves_out_is_that_of_the_old_row() -> None:
    """If the log has that; the old key alone says nothing of it."""
    full = changes(HOUR, RelationColumn("height", True, 25))
    update = Update(7, (b"1", b"long"), (b"1", UNCHANGED))
    assert full.records(update) == [(("public.tides", "1"), ("1", "long"))]
    with raises(PostgresError):
        changes().records(update)
    with raises(PostgresError):
        full.records(Update(7, None, (b"1", UNCHANGED)))


def test_a_new_column_is_left_out() -> None:
    """Wherever it is, and whatever order the others have."""
    made = changes(RelationColumn("moon", False, 25), HEIGHT, HOUR)
    assert made.records(Insert(7, (b"full", b"high", b"1"))) == [(("public.tides", "1"), ("1", "high"))]
    assert made.left_out == {"column public.tides.moon"}


def test_a_new_table_is_left_out() -> None:
    """It was not copied."""
    made = changes(name="public.waves", oid=8)
    assert made.records(Insert(8, (b"1", b"high"))) == made.records(Truncate((8,))) == []
    assert made.left_out == {"table public.waves"}


def test_a_renamed_table_keeps_its_name_in_records() -> None:
    """It has the same rows."""
    assert changes(name="public.waves").records(Delete(7, (b"1", None))) == [(("public.tides", "1"), None)]


@pytest.mark.parametrize(
    "relation",
    [
        Relation(7, "public.tides", (HOUR,)),
        Relation(7, "public.tides", (HOUR, RelationColumn("level", False, 25))),
        Relation(7, "public.tides", (HOUR, RelationColumn("height", False, 700))),
        Relation(7, "public.tides", (RelationColumn("hour", False, 23), RelationColumn("height", False, 25))),
        Relation(8, "public.tides", (HOUR, HEIGHT)),
    ],
    ids=["dropped", "renamed", "type", "key", "anew"],
)
def test_a_table_that_no_record_can_follow_is_refused(relation: Relation) -> None:
    """The message names the table and the column."""
    with raises(PostgresError):
        changes().records(relation)


def test_a_truncated_table_is_refused() -> None:
    """The log does not say which rows it had."""
    with raises(PostgresError):
        changes().records(Truncate((9, 7)))
