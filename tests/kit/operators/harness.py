"""The common ground of the tests of operators: numbers split at random, and runs compared with Python.

A result is compared as a bag of records for each time: where an operator promises no order, none is asked for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

import tidewheel as tw
from tests.laws.strategies import law_settings
from tidewheel.batches.batches import length, records
from tidewheel.operators.base.division import Division
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.pacts import RebalancePact
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.worker.operator_context import pacts_of

DEADLINE_S = 60.0
MOST_ROUNDS = 5000

Feed: TypeAlias = list[tuple[int, list[int]]]
"""(time, numbers) of each batch, in the order in which they are sent; times never go back."""

SAMPLE: Feed = [
    (0, [3, 1, 3]),
    (0, [7, -2, 30, 12, 3]),
    (1, [5]),
    (1, [5, 5, 18, 0]),
    (1, [29, -9, 4, 11, 6, 6]),
    (2, []),
    (3, [0, 4]),
    (3, [20, 21, 4, -1]),
    (6, [8, 8, 8, 2, 15, 16]),
]
"""Epochs with duplicates, several batches each, and gaps between them; one is empty."""

Bags: TypeAlias = dict[Any, Counter[Any]]
"""The counts of records, by time; a time without records is not there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of batch that can hold numbers: how one is made, and how the number of one of its records is read."""

    name: str
    make: Callable[[list[int]], Any]
    number: Callable[[Any], int]


def _table(numbers: list[int]) -> Any:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def _record_batch(numbers: list[int]) -> Any:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def _array(numbers: list[int]) -> Any:
    return np.array(numbers, dtype=np.int64)


LISTS = Kind("list", list, int)
TABLES = Kind("table", _table, lambda row: int(row["n"]))
RECORD_BATCHES = Kind("record batch", _record_batch, lambda row: int(row["n"]))
ARRAYS = Kind("array", _array, int)
KINDS = (LISTS, TABLES, RECORD_BATCHES, ARRAYS)


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent, as which kind of batch, and how many workers share it."""

    feed: Feed
    kind: Kind = LISTS
    workers: int = 1

    def __repr__(self) -> str:
        return f"Case({self.feed}, {self.kind.name}, workers={self.workers})"


@st.composite
def feeds(draw: st.DrawFn) -> Feed:
    """Any numbers in any split into batches and epochs; some batches are empty, some epochs are left out."""
    time, feed = 0, []
    for step, numbers in draw(
        st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(-9, 30), max_size=4)), max_size=6)
    ):
        time += step
        feed.append((time, numbers))
    return feed


def cases(*kinds: Kind) -> st.SearchStrategy[Case]:
    """Cases of the given kinds of batches, of all kinds by default, on one, two or three workers."""
    return st.builds(Case, feeds(), st.sampled_from(kinds or KINDS), st.integers(1, 3))


def operator_settings(max_examples: int = 30) -> settings:
    """How often an operator is tried; each time is a whole job."""
    return law_settings(max_examples)


def send(job: tw.types.Job, name: str, feed: Feed, kind: Kind = LISTS) -> None:
    """Send all of a feed to an input and close it."""
    with job.input(name) as handle:
        for time, numbers in feed:
            handle.advance_to(time)
            handle.send(kind.make(numbers))


def settle(job: tw.types.Job) -> None:
    """Run a local job until it has nothing left to do."""
    assert isinstance(job, LocalJob)
    for _ in range(MOST_ROUNDS):
        if not job.run_round():
            return
    raise AssertionError(f"there is no end after {MOST_ROUNDS} rounds")


def run(describe: Callable[[tw.Stream[Any]], tw.Stream[Any]], case: Case) -> Sequence[tw.types.Captured]:
    """Run an input and what ``describe`` puts after it to the end; return what came out."""
    flow = tw.Dataflow("test")
    describe(flow.input("numbers")).probe("end").capture("results")
    ignore_others(flow)
    with tw.run(flow, workers=case.workers, engine="local") as job:
        send(job, "numbers", case.feed, case.kind)
        job.wait(DEADLINE_S)
        assert len(job.probe("end").frontier) == 0
        results = job.captured("results")
    assert all(length(result.batch) > 0 for result in results)
    return results


def ignore_others(flow: tw.Dataflow) -> None:
    """Say of the streams side by side of which a test reads one, such as results, that nothing reads the others."""
    description = description_of(flow)
    description.ignored.update(source for outputs in description.side_by_side for source in outputs.values())


def bags(results: Iterable[tw.types.Captured], kind: Kind | None = None) -> Bags:
    """Return the records of results by time; numbers if their batches are of ``kind``, else as they are."""
    found: Bags = {}
    for result in results:
        read = kind.number if kind is not None else lambda record: record
        found.setdefault(result.time, Counter()).update(read(record) for record in records(result.batch))
    return found


def expected(feed: Feed, function: Callable[[list[int]], Iterable[Any]] = list) -> Bags:
    """Return what plain Python makes of all numbers of each time."""
    numbers: dict[int, list[int]] = {}
    for time, batch in feed:
        numbers.setdefault(time, []).extend(batch)
    made = {time: Counter(function(batch)) for time, batch in numbers.items()}
    return {time: bag for time, bag in made.items() if bag}


def tag_with_worker(context: tw.OperatorContext) -> Schedule:
    """Build an operator that replaces each number by (number, the worker that has it)."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            rows = records(batch)
            numbers = [row["n"] if isinstance(row, dict) else row for row in rows]
            output.send(token, [(number, context.worker) for number in numbers])

    return schedule


def gather(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends all records of a time, sorted, as one batch, once the time is complete."""
    pact = pacts_of(context)[0] or RebalancePact()
    held: dict[Any, list[Any]] = Division(pact.split, add).of_each().state(context, "held", dict)
    notificator = context.notificator()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            held.setdefault(lent.time, []).extend(batch)
            notificator.notify_at(lent)
        for token in notificator.ready(input):
            if token.time in held:
                output.send(token, sorted(held.pop(token.time)))

    return schedule
