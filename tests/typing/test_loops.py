"""The knowledge of type checkers about loops: the records of the body and of the result.

mypy reads this file with the rest of the tests, as `test_streams.py` says.
"""

from typing import assert_type

import pytest

import tidewheel as tw
from tests.typing.test_streams import half, length, numbers, words


def test_loops() -> None:
    """What goes round is what came in; what leaves may be something else."""
    stream = numbers()
    loop = stream.flow.scope("loop")
    assert_type(stream.enter(loop), tw.Stream[int])
    assert_type(stream.enter(loop).leave(), tw.Stream[int])
    assert_type(stream.enter_at(loop, half), tw.Stream[int])

    def body(inner: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[str]]:
        return inner.filter(bool), inner.map(str)

    def wrong(inner: tw.Stream[int]) -> tuple[tw.Stream[str], tw.Stream[str]]:
        return inner.map(str), inner.map(str)

    assert_type(stream.iterate(body), tw.Stream[str])
    assert_type(stream.iterate(lambda inner: inner.map(half), max_rounds=2), tw.Stream[int])
    assert_type(stream.iterate(body, max_rounds=2), tw.Stream[int | str])
    stream.iterate(wrong)  # type: ignore[arg-type]
    stream.enter_at(loop, len)  # type: ignore[arg-type]
    back: tw.types.Feedback[int] = loop.feedback()
    back.connect(words(stream).enter(loop))  # type: ignore[arg-type]


def test_tests_of_rounds() -> None:
    """What ``measure`` returns is what ``combine`` and ``until`` get; the records are those of the body."""
    stream = numbers()
    names = words(stream)

    def body(inner: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[str]]:
        return inner.filter(bool), inner.map(str)

    def step(inner: tw.Stream[int], other: tw.Stream[str]) -> tw.Stream[int]:
        return inner.join(other, half, length).map(lambda pair: pair[0])

    def small(value: float) -> bool:
        return value < 1e-6

    def size(record: int) -> float:
        return abs(record) / 2

    assert_type(stream.iterate(lambda inner: inner.map(half), until=small, measure=size), tw.Stream[int])
    assert_type(stream.iterate(body, until=small, measure=size, combine=max, max_rounds=3), tw.Stream[int | str])
    assert_type(
        stream.iterate(lambda inner: inner.map(half), until=lambda total: total > 9, measure=lambda n: n + 1),
        tw.Stream[int],
    )
    assert_type(stream.iterate(step, until=lambda total: total < 1, measure="n", beside=[names]), tw.Stream[int])
    assert_type(stream.iterate(step, max_rounds=3, beside=[names]), tw.Stream[int])
    stream.iterate(step, until=small, measure=len, beside=[names])  # type: ignore[arg-type]
    stream.iterate(step, until=len, measure=size, beside=[names])  # type: ignore[misc]
    with pytest.raises(tw.GraphError):
        stream.iterate(step, until=small, beside=[names])  # type: ignore[arg-type]
