"""Joins of streams whose keys are of types that can never be equal: they have no results, and say so."""

import uuid
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.operators.harness import ignore_others

NOON = datetime(2024, 5, 1, 12)  # noqa: DTZ001 - as columns have it


class Level(IntEnum):
    HIGH = 2


JOINS: dict[str, Any] = {
    "join": lambda left, *others, **more: left.join(*others, how="left", name="meet", **more),
    "across": lambda left, *others, **more: left.join_across_epochs(*others, name="meet", **more),
    "cogroup": lambda left, *others: left.cogroup(*others, name="meet"),
    "interval": lambda left, *others, **more: (
        left.interval_join(*others, at="at", within=(-9, 9), lateness=9, name="meet", **more).results
    ),
}


def warnings_of(lefts: list[Any], rights: list[Any], describe: Any, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Join the batches of both sides, each an epoch, and return the warnings about keys."""
    flow = tw.Dataflow("test")
    sides = [
        flow.source(f"side {number}", tw.IterableSource([list(enumerate(batches))]))
        for number, batches in enumerate((lefts, rights))
    ]
    describe(*sides).capture("met")
    ignore_others(flow)
    with tw.run(flow, engine="local") as job:
        job.wait(60)
    return [one.getMessage() for one in caplog.records if "no key of one side" in one.getMessage()]


@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ([1, 2], ["1", "2"], "as 1 is of type int and '1' is of type str: convert the keys of one side before"),
        ([(1, "a")], [("1", "a")], "as (1, 'a') is of type tuple and ('1', 'a') is of type tuple"),
        ([(1, "a")], [(1, "a", 2)], "as (1, 'a') is of type tuple and (1, 'a', 2) is of type tuple"),
        ([uuid.UUID(int=1)], [str(uuid.UUID(int=1))], "is of type UUID and "),
        ([None, 1], [None, "a"], "as 1 is of type int and 'a' is of type str"),
        ([1, "a"], [2.5], ""),
        ([True, None], [Decimal(2), None], ""),
        ([Level.HIGH, 7], [7.5], ""),
        ([None], [1], ""),
        ([], [1], ""),
    ],
)
def test_joins_of_records_warn(
    kind: str, left: list[Any], right: list[Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, by the name that the user gave the join, however many epochs there are."""
    lefts, rights = (
        [[{"k": key, "at": epoch} for key in keys] for epoch in range(3) if keys] for keys in (left, right)
    )
    found = warnings_of(lefts, rights, lambda one, other: JOINS[kind](one, other, lambda row: row["k"]), caplog)
    assert len(found) == bool(said)
    assert all(one.startswith("operator 'meet' on worker 0: ") and said in one for one in found)


@pytest.mark.parametrize("kind", [kind for kind in JOINS if kind != "cogroup"])  # which has rows of tables
@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (pa.array([1, 2]), pa.array(["1", "2"]), "is of type int and '"),
        (pa.array([1]), pa.array([NOON]), "is of type datetime: convert"),
        (pa.array([1], pa.int8()), pa.array([2.5]), ""),
        (pa.array(["a"]).dictionary_encode(), pa.array(["b"], pa.large_string()), ""),
        (pa.array([NOON], pa.timestamp("ns")), pa.array([NOON], pa.timestamp("us")), ""),
        (pa.array([None], pa.int64()), pa.array(["a"]), ""),
    ],
)
def test_joins_of_tables_warn(
    kind: str, left: pa.Array, right: pa.Array, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if only one of the columns of a key does not fit."""
    lefts, rights = (
        [pa.table({"k": keys, "same": [1] * len(keys), "at": [epoch] * len(keys)}) for epoch in range(3)]
        for keys in (left, right)
    )
    found = warnings_of(lefts, rights, lambda one, other: JOINS[kind](one, other, ("same", "k"), suffix="_2"), caplog)
    assert len(found) == bool(said)
    assert all(one.startswith("operator 'meet' on worker 0: ") and said in one for one in found)
