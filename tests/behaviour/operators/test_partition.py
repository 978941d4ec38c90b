"""The partition operator."""

from typing import Any

import numpy as np
import pytest

import tidewheel as tw
from tests.kit.operators.harness import KINDS, LISTS, Case, run
from tests.kit.operators.operator_case import number_of


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_comes_out_is_of_the_kind_that_went_in(kind: Any) -> None:
    """Each part is in order and of the kind of the batch; a part that gets all has the batch itself."""
    seen: list[Any] = []

    def describe(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        noted = stream.inspect_batches(lambda batch, time, worker: seen.append(batch))
        return noted.partition(3, lambda record: number_of(record) % 3)[1]

    (mixed, whole) = run(describe, Case([(0, [4, 5, 1, 6]), (1, [7, 1])], kind))
    assert type(mixed.batch) is type(kind.make([]))
    assert [number_of(record) for record in kind_rows(mixed.batch)] == [4, 1]
    assert kind is LISTS or whole.batch is seen[1]


def kind_rows(batch: Any) -> Any:
    return batch.to_pylist() if hasattr(batch, "to_pylist") else batch


@pytest.mark.parametrize("number", [3, -1, 1.0, "1", None])
def test_a_number_that_is_no_part_is_an_error(number: Any) -> None:
    """The error shows the number, the record and what is allowed; nothing of the batch is lost in silence."""
    message = (
        rf"'partition' failed on worker 0 at time 2: ValueError: .*partition\(3, \.\.\.\) returned {number!r} for 7"
    )
    with pytest.raises(tw.JobError, match=message):
        run(lambda stream: stream.partition(3, lambda n: number if n == 7 else 0)[0], Case([(2, [1, 7])]))


def test_integers_of_numpy_are_numbers_too() -> None:
    """Whatever is an integer to Python will do."""
    results = run(lambda stream: stream.partition(2, lambda n: np.int64(n % 2))[1], Case([(0, [1, 2, 3])]))  # type: ignore[arg-type, return-value]
    assert [result.batch for result in results] == [[1, 3]]
