"""A dataflow with everything in it that moves between workers, and what plain Python makes of its input."""

from collections import Counter
from typing import Any

import tidewheel as tw
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Schedule


def count_whole_times(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends, once a time is complete, how often each record came, and nothing before."""
    held: dict[Any, tuple[tw.TimestampToken, Counter[Any]]] = {}

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            held.setdefault(lent.time, (lent.retain(), Counter()))[1].update(batch)
        for time in [time for time in held if not input.frontier.less_equal(time)]:
            token, counts = held.pop(time)
            with token:
                output.send(token, sorted(counts.items()))

    return schedule


def halve(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
    """Send numbers round, exchanged each time, until they are below 2."""
    here = numbers.exchange(lambda number: number)
    return here.filter(lambda number: number > 1).map(lambda number: number // 2), here.filter(lambda n: n <= 1)


def busy_flow() -> tw.Dataflow:
    """Return a dataflow of a loop with exchanges and an operator that waits for whole times, captured as ``counts``."""
    flow = tw.Dataflow("busy")
    numbers = flow.input("numbers")
    ends = numbers.iterate(halve, name="halving").map(lambda end: ("end", end))
    residues = numbers.map(lambda number: ("residue", number % 3))
    counts = ends.concat(residues).unary(count_whole_times, exchange=lambda pair: pair, name="count")
    counts.probe("done").capture("counts")
    return flow


def plain_counts(epochs: list[list[int]]) -> dict[Time, dict[Any, int]]:
    """Return what the dataflow computes for the batches of each epoch."""

    def end(number: int) -> int:
        while number > 1:
            number //= 2
        return number

    found: dict[Time, dict[Any, int]] = {}
    for time, numbers in enumerate(epochs):
        pairs: list[tuple[str, int]] = [("end", end(number)) for number in numbers]
        pairs += [("residue", number % 3) for number in numbers]
        if pairs:
            found[time] = dict(Counter(pairs))
    return found


def collected(results: list[tuple[Time, Any]]) -> dict[Time, dict[Any, int]]:
    """Return captured counts by time; each key of a time must have been counted once."""
    found: dict[Time, dict[Any, int]] = {}
    for time, batch in results:
        for key, count in batch:
            assert key not in found.setdefault(time, {}), f"{key} was counted twice at {time}"
            found[time][key] = count
    return found
