"""Times may be whole numbers of any type; what is refused is said with the range."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tidewheel as tw
from tidewheel.progress import IntegerDomain, ProductDomain, UnitDomain

NUMBERS = [np.int64, np.int8, np.uint64, np.uint16]
WRONG = [-1, 2**63, True, 1.0, "1", None, np.float64(1), np.bool_(True), np.uint64(2**63), np.int64(-1)]
RANGE = "whole numbers from 0 to 2^63 - 1"


class Source(tw.Source[int]):
    """One epoch, at a time of NumPy's."""

    says_epochs = True

    def partitions(self) -> list[int]:
        return [0]

    def open(self, partition: Any, position: Any) -> Iterator[tw.Fetched[int]]:
        yield tw.Fetched([1], 1, np.int64(3))


def build(context: tw.OperatorContext) -> Any:
    """Send everything one epoch later, by a token that goes through all that takes a time."""
    notificator = context.notificator()

    def schedule(input: Any, output: Any) -> None:
        for lent, batch in input:
            with lent.delayed(np.int64(lent.time)) as token, token.delayed(np.int64(token.time)) as later:
                later.downgrade(np.uint8(later.time + 1))
                output.send(later, batch)
            notificator.notify_at(lent)
        for token in notificator.ready(input):
            token.discard()

    return schedule


@pytest.mark.parametrize("number", NUMBERS)
def test_inputs_probes_and_operators_take_whole_numbers_of_numpy(number: Callable[[int], Any]) -> None:
    """What comes out has times that are plain integers, as they go to files, tables and other processes."""
    flow = tw.Dataflow("times")
    numbers = flow.input("numbers", int).probe("read")
    numbers.capture("input")
    numbers.unary(build, name="later").capture("later")
    numbers.delay(lambda record, time: number(time + record)).capture("delayed")
    numbers.delay(lambda record, time: number(time + 2)).capture("delayed by two")
    with flow.scope("loop") as loop:
        numbers.enter_at(loop, number).capture("inside")
    flow.source("source", Source()).capture("source")
    with tw.run(flow, engine="local") as job:
        handle = job.input("numbers")
        handle.advance_to(number(5))
        other = handle.delayed(number(6))
        other.send([9])
        other.close()
        job.probe("read").wait_until(number(5))
        assert job.probe("read").has_completed(number(4))
        assert not job.probe("read").has_completed(number(5))
        handle.close()
        job.wait()
        found = {name: [one.time for one in job.captured(name)] for name in ("input", "later", "delayed", "source")}
        inside = job.captured("inside")[0].time
        batches = job.captured("delayed by two")[0].time
    assert found == {"input": [6], "later": [7], "delayed": [15], "source": [3]}
    assert (inside, batches) == ((6, 9), 8)
    times = [*inside, batches, *(time for times in found.values() for time in times)]
    assert {type(time) for time in times} == {int}


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_what_is_refused_is_said_with_the_range(wrong: Any) -> None:
    """At the driver, at a probe and in an operator."""
    flow = tw.Dataflow("times")
    flow.input("numbers").probe("read").delay(lambda record, time: wrong).capture("delayed")
    job = tw.run(flow, engine="local")
    for refuse in (job.input("numbers").advance_to, job.input("numbers").delayed, job.probe("read").wait_until):
        with pytest.raises(tw.TidewheelError) as caught:
            refuse(wrong)
        assert RANGE in str(caught.value)
        assert repr(wrong) in str(caught.value)
    job.input("numbers").send([1])
    job.input("numbers").close()
    with pytest.raises(tw.JobError) as failed:
        job.wait()
    assert RANGE in str(failed.value)


def test_each_domain_says_what_its_times_are() -> None:
    """Also one with another maximum, pairs, and one that says nothing of itself."""
    assert IntegerDomain(7).describe() == "whole numbers from 0 to 7"
    assert (
        ProductDomain(IntegerDomain(), IntegerDomain(3)).describe() == f"pairs of {RANGE} and whole numbers from 0 to 3"
    )
    assert UnitDomain().describe() == "values such as ()"
