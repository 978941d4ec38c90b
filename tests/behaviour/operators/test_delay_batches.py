"""The delay_batches operator."""

from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.harness import KINDS, Case, run


def next_even(time: int) -> int:
    """Return the first even time from this one on."""
    return time + time % 2


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_batches_go_on_as_they_are(kind: Any) -> None:
    """The function is asked for a time, and the batch goes on as the same object."""
    seen: list[Any] = []

    def describe(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        return stream.inspect_batches(lambda batch, time, worker: seen.append(batch)).delay_batches(next_even)

    results = run(describe, Case([(0, [1]), (1, [2])], kind))
    assert [(result.time, result.batch is batch) for result, batch in zip(results, seen, strict=True)] == [
        (0, True),
        (2, True),
    ]


@pytest.mark.parametrize(("time", "said"), [(2, "a time only moves forward"), ("later", "that is no time here")])
def test_a_time_that_is_not_later_is_an_error(time: Any, said: str) -> None:
    """The error shows both times."""
    with pytest.raises(
        tw.JobError, match=rf"'delay_batches' failed on worker 0 at time 3: .*returned {time!r}.*{said}"
    ):
        run(lambda stream: stream.delay_batches(lambda _: time), Case([(3, [1])]))
