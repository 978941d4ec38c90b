"""The promises that every operator keeps, of each row in `tests.kit.operators.operator_table`."""

import inspect
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import (
    DEADLINE_S,
    SAMPLE,
    Case,
    Feed,
    Kind,
    feeds,
    ignore_others,
    operator_settings,
    run,
    settle,
)
from tests.kit.operators.operator_case import OperatorCase, number_of, plain, plain_bags
from tests.kit.operators.operator_table import TABLE
from tests.kit.operators.rounds import IN_LOOPS
from tests.kit.operators.wrong_arguments import ANYTHING, ARGUMENTS, OMITTED
from tidewheel.batches.batches import is_arrow, is_numpy, records
from tidewheel.runtime.description.dataflow_description import description_of

CALLS = {"map_async", "map_actors"}
"""Operators that make calls beside the worker."""

WATCHED: Feed = [(0, [3, 1, 3, 8]), (0, [2, 30]), (1, [5, 0]), (2, [5, 4, 17]), (2, [6, 9, 12])]
"""Epochs of which the last may still be open."""


def public_methods(*classes: type) -> set[str]:
    """Return the names of the operators of classes as rows have them."""
    return {
        f"{'Collection.' if kind is tw.Collection else ''}{name}"
        for kind in classes
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_every_operator_has_a_row() -> None:
    """A method of a stream or collection without a row in the table is found here, and so is a row of no method."""
    assert {case.operator for case in TABLE} == public_methods(tw.Stream, tw.Collection)
    assert len({str(case) for case in TABLE}) == len(TABLE), "two rows have one name"


def check_kind(case: OperatorCase, kind: Kind, batch: Any) -> None:
    """See that a batch is of the kind that the row says."""
    came = kind.make([1])
    expected: Any = {"lists": [1], "tables": None, "the same": came}[case.gives]
    if expected is None or is_arrow(expected):
        assert is_arrow(batch)
    else:
        assert isinstance(batch, np.ndarray if is_numpy(expected) else list)


def check_order(case: OperatorCase, feed: Feed, workers: int, results: Sequence[tw.types.Captured]) -> None:
    """See that the records of each time are in the order that the row says."""
    found: dict[Any, list[Any]] = {}
    for result in results:
        found.setdefault(result.time, []).extend(map(plain, records(result.batch)))
    if case.order == "sorted":
        assert len(results) == len(found), "an epoch is one batch"
        assert list(found) == sorted(found) or case not in TABLE, "epochs come one after the other"
    if case.order == "sorted" or (case.order == "kept" and workers == 1):
        expected = {time: list(map(plain, made)) for time, made in case.results(feed).items()}
        assert found == {time: made for time, made in expected.items() if made}


def check(case: OperatorCase, feed: Feed, kind: Kind, workers: int) -> None:
    """Run an operator, and compare what comes out, in which batches and which order, with what the row says."""
    results = run(case.describe, Case(feed, kind, workers))
    assert plain_bags(results) == case.expected(feed)
    for result in results:
        check_kind(case, kind, result.batch)
    check_order(case, feed, workers, results)


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_the_result_is_the_same_for_any_workers_and_batches(case: OperatorCase) -> None:
    """Any numbers, split in any way into batches and epochs, on one to four workers: what plain Python says."""
    for kind in case.kinds:
        for workers in (1, 3):
            check(case, SAMPLE, kind, workers)

    @operator_settings(max_examples=6)
    @given(feeds(), st.sampled_from(case.kinds), st.sampled_from((1, 2, 3, 4)))
    def holds(feed: Feed, kind: Kind, workers: int) -> None:
        check(case, feed, kind, workers)

    holds()


@pytest.mark.parametrize("case", IN_LOOPS, ids=str)
def test_in_a_loop_each_round_is_an_epoch(case: OperatorCase) -> None:
    """Also when the next epoch's first round is there long before; what is kept of all epochs goes by rounds first."""
    for workers in (1, 2):
        check(case, SAMPLE, case.kinds[0], workers)

    @operator_settings(max_examples=3)
    @given(feeds(), st.sampled_from(case.kinds), st.sampled_from((1, 2, 3)))
    def holds(feed: Feed, kind: Kind, workers: int) -> None:
        check(case, feed, kind, workers)

    holds()


@pytest.mark.parametrize("case", [case for case in TABLE if case.loop == "refused"], ids=str)
def test_there_are_operators_that_are_refused_in_a_loop(case: OperatorCase) -> None:
    """Where times come not one after the other, or an end is not the end of the input: the error names the operator."""
    flow = tw.Dataflow("test")
    with raises(tw.GraphError):
        flow.input("numbers").iterate(case.describe, max_rounds=2)


class NoAnswerError(Exception):
    """What a user's function raises."""


def no_seven(record: Any) -> int:
    """Return the number of a record, unless it is 7."""
    if number_of(record) == 7:
        raise NoAnswerError
    return number_of(record)


def epoch_of(time: Any) -> Any:
    """Return the epoch of a time in any loop."""
    return epoch_of(time[0]) if isinstance(time, tuple) else time


@pytest.mark.parametrize("case", [case for case in TABLE if case.calls], ids=str)
def test_a_function_that_raises_fails_the_job(case: OperatorCase) -> None:
    """The error names operator, worker and time, and has the traceback of the user's function."""
    feed: Feed = [(0, [1, 2]), (0, [3]), (1, [4, 7, 11, 15])]
    for kind in case.kinds:
        with pytest.raises(tw.JobError) as caught:
            run(lambda stream: case.describe(stream, no_seven), Case(feed, kind, workers=2))
        error = caught.value
        assert (case.fails_in or case.operator.rpartition(".")[2]) in str(error.operator)
        assert epoch_of(error.time) == 1
        assert error.worker in {0, 1}
        assert "NoAnswerError" in str(error)
        assert "in no_seven" in error.traceback_text


def kept(job: tw.types.Job) -> dict[Any, bytes]:
    """Return all that the operators of a local job keep, but for the results that a test captures."""
    return {
        (worker, one.name, name): pickle.dumps(state)
        for worker, core in enumerate(job._cores)  # type: ignore[attr-defined]
        for one in core._instances
        for name, state in {**one.kept.states, **one.kept.by_key}.items()
        if one.name != "numbers" and not one.name.endswith("capture results")
    }


@pytest.mark.parametrize("case", [one for one in [*TABLE, *IN_LOOPS] if one.operator not in CALLS], ids=str)
def test_what_is_kept_of_an_epoch_goes_when_it_is_complete(case: OperatorCase) -> None:
    """Whatever the input will still bring. Of all epochs an operator keeps something only if the row says so.

    Calls of `map_async` and `map_actors` end when they do, so what these keep at a moment is a matter of chance.
    """
    flow = tw.Dataflow("test")
    case.describe(flow.input("numbers")).capture("results")
    ignore_others(flow)
    with tw.run(flow, workers=2, engine="local") as job:
        settle(job)
        begins_with = kept(job)
        handle = job.input("numbers")
        for time, numbers in WATCHED:
            handle.advance_to(time)
            handle.send(case.kinds[0].make(numbers))
        settle(job)
        during = kept(job)
        handle.advance_to(9)
        settle(job)
        after = kept(job)
        handle.close()
        job.wait(DEADLINE_S)
    kept_of_all, kept_meanwhile = (sorted(now.items() - begins_with.items()) for now in (after, during))
    found = "all epochs" if kept_of_all else "an epoch" if kept_meanwhile else "nothing"
    assert found == case.keeps, [name for name, _ in kept_of_all + kept_meanwhile]


@pytest.mark.parametrize("operator", ARGUMENTS)
def test_arguments_that_cannot_be_used_are_refused(operator: str) -> None:
    """When the dataflow is described, which stays as it was. The error says which argument it was and what it takes."""
    flow = tw.Dataflow("test")
    numbers: Any = flow.input("numbers")
    numbers = numbers.as_collection() if operator.startswith("Collection.") else numbers
    method = getattr(numbers, operator.rpartition(".")[2])
    good = {name: values[0] for name, values in ARGUMENTS[operator].items() if values[0] is not OMITTED}
    size = description_of(flow).size
    for name, (_, *wrong) in ARGUMENTS[operator].items():
        for value in wrong:
            with raises(tw.GraphError):
                method(**{**good, name: value})
            assert description_of(flow).size == size, f"{name}={value!r} has left something"


@pytest.mark.parametrize("operator", ARGUMENTS)
def test_each_argument_has_a_wrong_value(operator: str) -> None:
    """An argument that is not checked, and one that was renamed, is found here."""
    owner = tw.Collection if operator.startswith("Collection.") else tw.Stream
    parameters = inspect.signature(getattr(owner, operator.rpartition(".")[2])).parameters.values()
    named = {one.name for one in parameters if one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}}
    assert set(ARGUMENTS[operator]) == named - {"self", "name", *ANYTHING.get(operator, ())}
