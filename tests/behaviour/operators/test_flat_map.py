"""The flat_map operator."""

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run


def test_something_that_yields_nothing_iterable_is_an_error() -> None:
    """A function that returns a single record is told from one that returns several."""
    with raises(tw.JobError):
        run(lambda stream: stream.flat_map(lambda record: record), Case([(0, [1])]))
