"""Errors about arguments and records of any size: none holds all of one."""

from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw

SIZE = 1_400_000


class Large:
    """A value that says much of itself."""

    def __repr__(self) -> str:
        return "L" * SIZE


def stream() -> tw.Stream[Any]:
    return tw.Dataflow("flow").input("numbers")


@pytest.mark.parametrize(
    "wrong",
    [
        tw.Dataflow,
        lambda large: stream().window(tw.TumblingWindows(1), key=abs, at=large),
        lambda large: stream().exchange(large),
        lambda large: stream().sample(large),
        lambda large: stream().unary(large, name="own"),
        tw.TumblingWindows,
        lambda large: tw.RuntimeConfig(link=large),
        lambda large: tw.run(tw.Dataflow("flow"), workers=large),
    ],
)
def test_an_argument(wrong: Callable[[Any], object]) -> None:
    """The error says what was wrong in a few lines."""
    for large in (Large(), ["x" * 10] * (SIZE // 10)):
        with pytest.raises(tw.TidewheelError) as refusal:
            wrong(large)
        assert len(str(refusal.value)) < 3000


def fail(flow: tw.Dataflow) -> None:
    job = tw.run(flow, engine="local")
    job.input("numbers").send([Large()])
    job.input("numbers").close()
    job.wait(10)


@pytest.mark.parametrize(
    "describe",
    [
        lambda numbers: numbers.map(lambda record: record / 0),
        lambda numbers: numbers.window(tw.TumblingWindows(1), key=bool, at=lambda record: record).results,
        lambda numbers: numbers.partition(2, lambda record: record)[0],
        lambda numbers: numbers.delay(lambda record, time: record),
        lambda numbers: numbers.exchange(lambda record: [record]),
        lambda numbers: numbers.map(lambda record: [record]).as_collection().distinct().changes(),
        lambda numbers: numbers.unary(lambda context: lambda input, output: Large(), name="own"),
        lambda numbers: numbers.unary(lambda context: Large(), name="own"),
    ],
)
def test_a_record(describe: Callable[[tw.Stream[Any]], tw.Stream[Any]]) -> None:
    """Neither the error, nor what has caused it, nor the traceback has all of it."""
    numbers = stream()
    describe(numbers).capture("results")
    with pytest.raises(tw.JobError) as failure:
        fail(numbers.flow)
    error: BaseException | None = failure.value
    assert len(failure.value.traceback_text) < 20_000
    while error is not None:
        assert len(str(error)) < 20_000
        error = error.__cause__
