"""Laws of every operator: the result does not depend on workers, batches or kinds of batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.operators.all_cases import all_cases, operators
from tests.kit.operators.harness import Case, feeds, operator_settings, run
from tests.kit.operators.operator_case import OperatorCase, plain_bags


def test_every_operator_has_a_case() -> None:
    """A method of a stream without a case in its test file is found here, and so is a case of no method."""
    tried = {case.operator for case in all_cases()}
    assert not set(operators()) - tried, "these have no OperatorCase in the CASES of a test file"


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_the_result_is_the_same_for_any_workers_and_batches(case: OperatorCase) -> None:
    """Any numbers, split in any way into batches and epochs, on one, two and four workers: what plain Python says."""

    @operator_settings(max_examples=20)
    @given(feeds(), st.sampled_from(case.kinds), st.sampled_from((1, 2, 4)))
    def holds(feed: list[tuple[int, list[int]]], kind: object, workers: int) -> None:
        results = run(case.describe, Case(feed, kind, workers))  # type: ignore[arg-type]
        assert plain_bags(results) == case.expected(feed)

    holds()
