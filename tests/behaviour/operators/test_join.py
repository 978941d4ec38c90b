"""Join by functions: pairs of records of one epoch whose keys are equal."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import operator_settings, settle
from tests.kit.operators.two_sides import (
    COMPOSITE_KEYS,
    KEYS,
    WORKERS,
    Feed,
    Row,
    each_epoch_joined,
    numbers_in_pairs,
    row_feeds,
    run_two,
)

HOWS = ("inner", "left", "right", "outer")


@operator_settings(60)
@given(row_feeds(KEYS + COMPOSITE_KEYS), row_feeds(KEYS + COMPOSITE_KEYS), st.sampled_from(HOWS), WORKERS)
def test_it_is_the_nested_loop(left: Feed, right: Feed, how: Any, workers: int) -> None:
    """Duplicates, empty sides, None, NaN and keys of any mix of types, on any number of workers: as defined."""
    (results,) = run_two(lambda one, other: [one.join(other, lambda row: row.key, how=how)], (left, right), workers)
    assert numbers_in_pairs(results) == each_epoch_joined(left, right, how)


def test_an_epoch_is_joined_before_the_next_begins() -> None:
    """Nothing waits for the end: what an epoch has comes out while the next is being fed."""
    flow = tw.Dataflow("test")
    flow.input("left").join(flow.input("right"), lambda n: n).capture("joined")
    with tw.run(flow, engine="local") as job:
        left, right = job.input("left"), job.input("right")
        left.send([1])
        right.send([1])
        left.advance_to(1)
        right.advance_to(1)
        settle(job)
        assert job.captured("joined") == [tw.types.Captured(0, [(1, 1)])]
        left.close()
        right.close()
        job.wait()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), r"'join': a key is a function of a record, the name of a column or a tuple of names, not 3"),
        (((),), r"a key is a function of a record, .* not \(\)"),
        ((("a", 1),), r"a key is a function of a record, .* not \('a', 1\)"),
        ((len, "a"), r"of both sides are functions of a record, or names of columns\. They are <built-in .* 'a'"),
        ((("a", "b"), "a"), r"\('a', 'b'\) and \('a',\) are not equally many columns"),
    ],
)
def test_keys_that_do_not_fit_together_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    """The error names the operator and says what a key is."""
    flow = tw.Dataflow("test")
    with pytest.raises(tw.GraphError, match=message):
        flow.input("left").join(flow.input("right"), *arguments)


def test_other_arguments_that_cannot_be_used_are_refused() -> None:
    """A misspelled way to join, a suffix for pairs, no stream, or one of another scope, is found when described."""
    flow = tw.Dataflow("test")
    left, right = flow.input("left"), flow.input("right")
    untyped: Any = left
    with raises(tw.GraphError):
        untyped.join(right, len, how="full")
    with raises(tw.GraphError):
        untyped.join(right, len, suffix="_b")
    with raises(tw.GraphError):
        untyped.join(7, "a", how="left")
    with raises(tw.GraphError):
        left.join(right.enter(flow.scope("loop")), len)


def test_a_key_that_cannot_be_one_is_named() -> None:
    """A key that cannot be hashed is an error that says which operator it came to."""
    unhashable: Any = lambda row: [row.key]  # noqa: E731
    with raises(tw.JobError):
        run_two(lambda one, other: [one.join(other, unhashable)], ([(0, [Row(1, 1)])], []))
