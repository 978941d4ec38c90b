"""The flat_map operator."""

import sys

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the record is not shown: no function of the user's fails")
def test_something_that_yields_nothing_iterable_is_an_error() -> None:
    """A function that returns a single record is told from one that returns several."""
    with raises(tw.JobError):
        run(lambda stream: stream.flat_map(lambda record: record), Case([(0, [1])]))
