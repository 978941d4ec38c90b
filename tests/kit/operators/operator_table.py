"""The table of operators: every method of `Stream` and of `Collection`, and what plain Python says of it.

A row says what the operator makes of any numbers in any epochs. `OperatorCase` has the columns. Where plain Python
needs more than an expression, the function stands above its row. `test_every_operator` runs each row on all kinds of
batches and several numbers of workers, in a loop and across snapshots, with functions that raise and with wrong
arguments. So the test file of an operator has only what is special to it.
"""

import asyncio
import math
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidewheel as tw
from tests.kit.collections.plain_collection import PlainCollection
from tests.kit.operators.harness import ARRAYS, LISTS, TABLES, Feed, gather
from tests.kit.operators.operator_case import (
    ONLY_ARROW,
    ONLY_LISTS,
    OperatorCase,
    Read,
    Results,
    by_time,
    by_time_of,
    each_epoch,
    number_of,
    with_earlier,
)
from tests.kit.operators.scratch import scratch
from tests.kit.operators.sinks import Table, read_table
from tests.kit.operators.window_oracle import Event, Kind, epoch_windows, expected_windows
from tests.kit.operators.written_rows import numbers_in
from tidewheel.batches.batches import records
from tidewheel.operators.base.division import Division, split_by_key, updated
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.description.stable_hash import stable_hash

Numbers = tw.Stream[int]


passing = partial(OperatorCase, gives="the same", order="kept")
"""A row of an operator that sends records of what it receives, as soon as they come."""

of_epoch = partial(OperatorCase, keeps="an epoch")
"""A row of an operator that waits for whole epochs."""

sorting = partial(OperatorCase, gives="the same", order="sorted", keeps="an epoch")
"""A row of one that sends them in order."""

of_all_epochs = partial(OperatorCase, keeps="all epochs")
"""A row of an operator whose results depend on earlier epochs."""


def nothing(*_: Any) -> None:
    """Do nothing with anything."""


# ---------------------------------------------------------------------- record by record


def no_fives(record: Any) -> int:
    """Return the number of a record that is no multiple of five."""
    if number_of(record) % 5 == 0:
        raise ValueError(record)
    return number_of(record)


def others(numbers: Iterable[int]) -> list[int]:
    """Return the numbers at which `no_fives` does not raise."""
    return [n for n in numbers if n % 5]


def letters(stream: tw.Stream[Any]) -> tw.types.DeadLetters:
    made = stream.flow.dead_letters()
    made.ignore()
    return made


async def square(number: int) -> int:
    """Return a square, after others had a chance to run, some sooner than others."""
    for _ in range(number % 3):
        await asyncio.sleep(0)
    return number**2


async def squares(numbers: list[int]) -> list[int]:
    return [await square(number) for number in numbers]


RECORDS = [
    OperatorCase(
        "map",
        lambda stream, number: stream.map(lambda record: 3 * number(record) - 1),
        each_epoch(lambda ns: [3 * n - 1 for n in ns]),
        order="kept",
    ),
    passing(
        "filter",
        lambda stream, number: stream.filter(lambda record: number(record) % 3),
        each_epoch(lambda ns: [n for n in ns if n % 3]),
    ),
    passing(
        "filter",
        lambda stream, _: stream.filter((pc.field("n") > 2) | (pc.field("n") == -1)),
        each_epoch(lambda ns: [n for n in ns if n > 2 or n == -1]),
        ONLY_ARROW,
        "expression",
    ),
    OperatorCase(
        "flat_map",
        lambda stream, number: stream.flat_map(lambda record: (number(record) for _ in range(number(record) % 3))),
        each_epoch(lambda ns: [n for n in ns for _ in range(n % 3)]),
        order="kept",
    ),
    OperatorCase(
        "map",
        lambda stream, _: stream.map(no_fives, dead_letters=letters(stream)),
        each_epoch(others),
        name="dead letters",
        order="kept",
    ),
    passing(
        "filter",
        lambda stream, _: stream.filter(lambda record: no_fives(record) > 2, dead_letters=letters(stream)),
        each_epoch(lambda ns: [n for n in others(ns) if n > 2]),
        name="dead letters",
    ),
    of_epoch(
        "map_async",
        lambda stream, number: stream.map_async(
            lambda some: squares([number(record) for record in some]), batch_size=3, ordered=True, per_second=1e6
        ),
        each_epoch(lambda ns: [n**2 for n in ns]),
        name="lists",
        order="kept",
    ),
    of_epoch(
        "map_async",
        lambda stream, _: stream.map_async(lambda record: square(no_fives(record)), dead_letters=letters(stream)),
        each_epoch(lambda ns: [n**2 for n in others(ns)]),
        name="dead letters",
    ),
    of_epoch(
        "map_async",
        lambda stream, number: stream.map_async(lambda record: square(number(record))),
        each_epoch(lambda ns: [n**2 for n in ns]),
    ),
    of_epoch(
        "map_async",
        lambda stream, number: stream.map_async(
            lambda record: square(number(record)), concurrency=2, ordered=True, timeout_s=60, retry=tw.Retry(attempts=2)
        ),
        each_epoch(lambda ns: [n**2 for n in ns]),
        name="ordered",
        order="kept",
    ),
    of_epoch(
        "map_actors",
        lambda stream, number: stream.map_actors(
            lambda: lambda batch: [number(record) ** 2 for record in records(batch)],
            replicas=1,
            batch_size=3,
            ordered=True,
        ),
        each_epoch(lambda ns: [n**2 for n in ns]),
        order="kept",
    ),
    OperatorCase(
        "map_batches",
        lambda stream, _: stream.map_batches(lambda batch: batch[1:]).concat(stream.map_batches(lambda one: one[:1])),
        each_epoch(list),
        gives="the same",
    ),
    passing("inspect", lambda stream, number: stream.inspect(number), each_epoch(list)),
    passing(
        "inspect_batches",
        lambda stream, number: stream.inspect_batches(lambda batch, time, worker: [*map(number, records(batch))]),
        each_epoch(list),
    ),
    passing(
        "select",
        lambda stream, _: stream.select("n", double=pc.field("n") * 2).select(n=pc.field("n") + pc.field("double")),
        each_epoch(lambda ns: [3 * n for n in ns]),
        ONLY_ARROW,
    ),
    passing(
        "with_schema", lambda stream, _: stream.with_schema(pa.schema({"n": pa.int64()})), each_epoch(list), ONLY_ARROW
    ),
]

# ---------------------------------------------------------------------- to other workers and streams

MASK = (1 << 64) - 1


def is_chosen(number: int, fraction: float, seed: int) -> bool:
    """Tell by SplitMix64, in plain Python, whether a number is in the sample."""
    mixed = (stable_hash(number) + stable_hash(seed)) & MASK
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = ((mixed ^ (mixed >> shift)) * factor) & MASK
    return bool((mixed ^ (mixed >> 31)) < fraction * 2**64)


def half(numbers: Iterable[int]) -> list[int]:
    return [number for number in numbers if is_chosen(number, 0.5, 7)]


def only_on_worker_zero(context: tw.OperatorContext) -> Schedule:
    """Build an operator that drops what comes to any other worker, so that the result does not depend on how many."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            if context.worker == 0:
                output.send(token, batch)

    return schedule


def marked(*streams: tuple[Any, tw.Stream[Any]]) -> tw.Stream[Any]:
    """Return the records of some streams as (mark of the stream, number)."""
    first, *others = (stream.map(lambda record, mark=mark: (mark, number_of(record))) for mark, stream in streams)  # type: ignore[misc]
    return first.concat(*others)


def by_size(stream: tw.Stream[Any], number: Read) -> tw.Stream[Any]:
    """Mark small, middle-sized and other numbers, by predicates that overlap."""
    sizes = stream.branch(small=lambda record: number(record) < 5, middle=lambda record: number(record) < 20)
    return marked(("small", sizes.small), ("middle", sizes.middle), ("rest", sizes.rest))


def collected(feed: Feed) -> Results:
    """Return what is collected of substreams that end with the input: at the time of their last record."""
    numbers, latest = defaultdict(list), {}
    for time, batch in feed:
        for number in batch:
            numbers[number % 3].append(number)
            latest[number % 3] = time
    found = defaultdict(list)
    for key, time in latest.items():
        found[time].append((key, sorted(numbers[key])))
    return found


ROUTING = [
    OperatorCase("exchange", lambda stream, number: stream.exchange(number), each_epoch(list), gives="the same"),
    OperatorCase(
        "exchange", lambda stream, _: stream.exchange("n"), each_epoch(list), ONLY_ARROW, "column", gives="the same"
    ),
    OperatorCase("rebalance", lambda stream, _: stream.rebalance(), each_epoch(list), gives="the same"),
    OperatorCase(
        "broadcast",
        lambda stream, _: stream.broadcast().unary(only_on_worker_zero, name="zero"),
        each_epoch(list),
        gives="the same",
    ),
    OperatorCase(
        "concat",
        lambda stream, _: stream.concat(stream.filter(lambda record: number_of(record) > 0), stream),
        each_epoch(lambda ns: [*ns, *ns, *(n for n in ns if n > 0)]),
        gives="the same",
    ),
    OperatorCase(
        "branch",
        lambda stream, number: marked(
            *zip(("even", "odd"), stream.branch(lambda record: number(record) % 2 == 0), strict=True)
        ),
        each_epoch(lambda ns: [("even" if n % 2 == 0 else "odd", n) for n in ns]),
    ),
    passing(
        "branch",
        lambda stream, number: stream.branch(lambda record: number(record) % 2 == 0).rest,
        each_epoch(lambda ns: [n for n in ns if n % 2]),
        name="rest",
    ),
    OperatorCase(
        "branch",
        by_size,
        each_epoch(lambda ns: [("small" if n < 5 else "middle" if n < 20 else "rest", n) for n in ns]),
        name="names",
    ),
    OperatorCase(
        "branch_when",
        lambda stream, _: marked(*zip(("even", "odd"), stream.branch_when(lambda time: time % 2 == 0), strict=True)),
        lambda feed: {time: [("odd" if time % 2 else "even", n) for n in ns] for time, ns in by_time(feed).items()},
        loop="another",
    ),
    passing(
        "branch_when",
        lambda stream, _: stream.branch_when(bool)[0],
        lambda feed: {time: ns for time, ns in by_time(feed).items() if time},
        name="one",
    ),
    OperatorCase(
        "partition",
        lambda stream, number: marked(*enumerate(stream.partition(4, lambda record: number(record) % 4))),
        each_epoch(lambda ns: [(n % 4, n) for n in ns]),
    ),
    passing("partition", lambda stream, _: stream.partition(1, lambda record: 0)[0], each_epoch(list), name="into one"),
    passing("ignore", lambda stream, _: stream.ignore(), each_epoch(list)),
    passing("sample", lambda stream, number: stream.sample(0.5, 7, key=number), each_epoch(half)),
    OperatorCase(
        "sample", lambda stream, _: stream.sample(0.5, 7), each_epoch(half), (ARRAYS,), "array", gives="the same"
    ),
    passing("sample", lambda stream, _: stream.sample(0.5, 7, key="n"), each_epoch(half), ONLY_ARROW, "column"),
    OperatorCase(
        "substreams",
        lambda stream, number: stream.rebalance().substreams("divided", lambda record: number(record) % 3),
        each_epoch(list),
        gives="the same",
        loop="another",
    ),
    of_epoch(
        "without_substreams",
        lambda stream, number: (
            stream.rebalance()
            .substreams("for a while", lambda record: number(record) % 3)
            .without_substreams()
            .distinct()
        ),
        each_epoch(dict.fromkeys),
        gives="the same",
        fails_in="substreams",
    ),
    of_all_epochs(
        "collect_substream",
        lambda stream, number: (
            stream.rebalance()
            .substreams("rests", lambda record: number_of(record) % 3)
            .rebalance()
            .collect_substream(lambda key, rows: (key, sorted(map(number, rows))))
        ),
        collected,
        loop="another",
    ),
]


# ---------------------------------------------------------------------- by time, and through loops


def halve(numbers: Numbers) -> Numbers:
    """Send each number to the worker that owns it, and halve it."""
    return numbers.exchange(lambda number: number).map(lambda number: number // 2)


def halve_while_even(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Halve even numbers, let the others leave."""
    even, odd = numbers.exchange(lambda number: number).branch(lambda number: number % 2 == 0)
    return even.map(lambda number: number // 2), odd


def without_twos(number: int, rounds: int) -> int:
    """Return a number halved as long as it is even, at most so often, by plain Python."""
    for _ in range(rounds):
        number = number // 2 if number % 2 == 0 else number
    return number


def settle_down(numbers: Numbers) -> Numbers:
    """Replace the numbers of each remainder by half of their greatest, on the worker that owns it."""
    return numbers.aggregate(lambda n: n % 3, add=max).map(lambda pair: pair[1] // 2)


def until_all_are_small(numbers: list[int]) -> list[int]:
    """Do the same as `settle_down` until no number is above 2, in plain Python."""
    while numbers:
        numbers = [max(n for n in numbers if n % 3 == rest) // 2 for rest in {n % 3 for n in numbers}]
        if max(numbers) <= 2:
            break
    return numbers


def halved_until_small(numbers: list[int]) -> list[float]:
    """Halve numbers, all of them as often as it takes until their sum is at most 10."""
    halved = [abs(number) / 2 for number in numbers]
    while halved and sum(halved) > 10:
        halved = [number / 2 for number in halved]
    return halved


TIMES = [
    OperatorCase(
        "delay",
        lambda stream, number: stream.delay(lambda record, time: time + number(record) % 5),
        by_time_of(lambda n, time: time + n % 5),
        gives="the same",
        loop="another",
    ),
    of_epoch(
        "delay",
        lambda stream, _: (
            stream.delay(lambda record, time: time + number_of(record) % 5)
            .map(number_of)
            .unary(gather, exchange=lambda record: 0, name="gather")
        ),
        lambda feed: {time: sorted(ns) for time, ns in by_time_of(lambda n, time: time + n % 5)(feed).items()},
        name="and wait for whole epochs",
        order="sorted",
        loop="another",
    ),
    passing(
        "enter",
        lambda stream, _: stream.enter(stream.flow.scope("entered")),
        by_time_of(lambda n, time: (time, 0)),
        loop="another",
    ),
    passing(
        "enter_at",
        lambda stream, number: stream.enter_at(stream.flow.scope("entered at"), lambda record: number(record) % 4),
        by_time_of(lambda n, time: (time, n % 4)),
        loop="another",
    ),
    passing(
        "leave", lambda stream, _: stream.enter(stream.flow.scope("left")).leave(), each_epoch(list), loop="another"
    ),
    OperatorCase(
        "iterate",
        lambda stream, _: stream.map(lambda record: 2 * abs(number_of(record)) + 2).iterate(halve_while_even),
        each_epoch(lambda ns: [without_twos(2 * abs(n) + 2, 9) for n in ns]),
    ),
    OperatorCase(
        "iterate",
        lambda stream, _: stream.map(number_of).iterate(halve, name="halve", max_rounds=3),
        each_epoch(lambda ns: [n // 8 for n in ns]),
        name="rounds",
    ),
    OperatorCase(
        "iterate",
        lambda stream, _: stream.map(number_of).iterate(halve_while_even, name="even", max_rounds=2),
        each_epoch(lambda ns: [without_twos(n, 2) for n in ns]),
        name="rounds and an end",
    ),
    of_epoch(
        "iterate",
        lambda stream, number: stream.map(number_of).iterate(
            settle_down, until=lambda most: most <= 2, measure=number, combine=max
        ),
        each_epoch(until_all_are_small),
        name="until",
    ),
    of_epoch(
        "iterate",
        lambda stream, _: stream.select(n=pc.abs(pc.field("n")).cast("float64")).iterate(
            lambda rows: rows.select(n=pc.field("n") / 2), until=lambda total: total <= 10, measure="n"
        ),
        each_epoch(halved_until_small),
        (TABLES,),
        "until, of a column",
        gives="the same",
    ),
    of_epoch(
        "iterate",
        lambda stream, _: stream.map(number_of).iterate(
            lambda inner, others: inner.join(others, lambda n: 0, lambda row: 0).map(lambda pair: pair[0] + 1),
            max_rounds=2,
            beside=[stream.filter(lambda row: number_of(row) % 2 == 0)],
        ),
        each_epoch(lambda ns: [n + 2 for n in ns for _ in range(sum(m % 2 == 0 for m in ns) ** 2)]),
        name="beside",
    ),
    OperatorCase("probe", lambda stream, _: stream.probe("case of probe"), each_epoch(list), gives="the same"),
    OperatorCase(
        "on_frontier",
        lambda stream, _: stream.on_frontier(nothing),
        each_epoch(list),
        gives="the same",
        order="kept",
        keeps="all epochs",
    ),
]

# ---------------------------------------------------------------------- operators of a user's


def joining(context: tw.OperatorContext) -> Schedule:
    """Build a join by number within each time, as soon as records meet: it never waits."""
    division = Division(split_by_key, updated).of_each()
    lefts: dict[Any, Counter[int]] = division.state(context, "lefts", dict)
    rights: dict[Any, Counter[int]] = division.state(context, "rights", dict)

    def schedule(left: tw.InputPort, right: tw.InputPort, output: tw.OutputPort) -> None:
        for port, mine, others in ((left, lefts, rights), (right, rights, lefts)):
            for token, batch in port:
                mine.setdefault(token.time, Counter()).update(batch)
                partners = others.get(token.time, Counter())
                output.send(token, [number for number in batch for _ in range(partners[number])])

    return schedule


OWN = [
    of_epoch(
        "unary",
        lambda stream, number: stream.map(number_of).unary(gather, exchange=lambda n: number(n) % 1, name="gather"),
        each_epoch(sorted),
        order="sorted",
        fails_in="gather",
    ),
    of_all_epochs(
        "binary",
        lambda stream, _: stream.map(number_of).binary(
            stream.map(number_of), joining, exchange=(number_of, number_of), name="join"
        ),
        each_epoch(lambda ns: [n for n, count in Counter(ns).items() for _ in range(count * count)]),
    ),
]

# ---------------------------------------------------------------------- whole epochs


def greatest_of_each(numbers: list[int]) -> list[int]:
    keys = {number % 3 for number in numbers}
    return [n for key in keys for n in sorted((n for n in numbers if n % 3 == key), reverse=True)[:2]]


def by_remainder(numbers: list[int]) -> dict[int, list[int]]:
    """Return the numbers by their remainder."""
    return {key: [n for n in numbers if n % 3 == key] for key in {n % 3 for n in numbers}}


def in_place(state: list[int], record: Any) -> list[int]:
    state.append(number_of(record))
    return state


def both_in_place(one: list[int], other: list[int]) -> list[int]:
    one.extend(other)
    return one


EPOCHS = [
    sorting("sort", lambda stream, number: stream.sort(number), each_epoch(sorted)),
    sorting(
        "sort",
        lambda stream, number: stream.sort(number, reverse=True),
        each_epoch(lambda ns: sorted(ns, reverse=True)),
        name="reverse",
    ),
    sorting(
        "sort",
        lambda stream, _: stream.sort("n", reverse=True),
        each_epoch(lambda ns: sorted(ns, reverse=True)),
        ONLY_ARROW,
        "column",
    ),
    sorting("sort", lambda stream, _: stream.sort(), each_epoch(sorted), name="records"),
    sorting("merge", lambda stream, number: stream.merge(stream, by=number), each_epoch(lambda ns: sorted(ns + ns))),
    sorting("merge", lambda stream, _: stream.merge(by="n"), each_epoch(sorted), ONLY_ARROW, "column"),
    sorting(
        "top_k",
        lambda stream, number: stream.top_k(3, order=number),
        each_epoch(lambda ns: sorted(ns, reverse=True)[:3]),
    ),
    of_epoch(
        "top_k",
        lambda stream, number: stream.top_k(2, key=lambda record: number(record) % 3, order=number),
        each_epoch(greatest_of_each),
        name="key",
        gives="the same",
    ),
    sorting(
        "top_k",
        lambda stream, _: stream.top_k(2),
        each_epoch(lambda ns: sorted(ns, reverse=True)[:2]),
        ONLY_ARROW,
        "column",
    ),
    of_epoch(
        "top_k",
        lambda stream, _: stream.top_k(1, key="n", order="n"),
        each_epoch(set),
        ONLY_ARROW,
        "key column",
        gives="the same",
    ),
    sorting(
        "top_k",
        lambda stream, _: stream.top_k(2),
        each_epoch(lambda ns: sorted(ns, reverse=True)[:2]),
        (ARRAYS,),
        "array",
    ),
    sorting(
        "top_k",
        lambda stream, number: stream.top_k(2, order=number, greatest=False),
        each_epoch(lambda ns: sorted(ns)[:2]),
        name="least",
        gives="the same",
    ),
    of_epoch("distinct", lambda stream, _: stream.distinct(), each_epoch(set), gives="the same"),
    of_epoch(
        "distinct",
        lambda stream, _: stream.map(lambda row: {"n": row["n"] % 4, "of": ["rows", None]}).distinct(),
        each_epoch(lambda ns: [{"n": n, "of": ["rows", None]} for n in {n % 4 for n in ns}]),
        ONLY_ARROW,
        "rows",
    ),
    of_epoch("count", lambda stream, _: stream.count(), each_epoch(lambda ns: Counter(ns).items())),
    of_epoch(
        "count",
        lambda stream, number: stream.count(lambda record: number(record) % 3),
        each_epoch(lambda ns: Counter(n % 3 for n in ns).items()),
        name="key",
    ),
    of_epoch(
        "count", lambda stream, _: stream.count("n"), each_epoch(lambda ns: Counter(ns).items()), ONLY_ARROW, "column"
    ),
    of_epoch(
        "aggregate",
        lambda stream, number: stream.aggregate(
            lambda record: number(record) % 3, add=lambda one, other: max(one, other, key=number)
        ),
        each_epoch(lambda ns: [(key, max(n for n in ns if n % 3 == key)) for key in {n % 3 for n in ns}]),
        name="without a start",
    ),
    of_epoch(
        "aggregate",
        lambda stream, _: stream.aggregate("n", add=lambda one, other: {"n": one["n"] + other["n"]}),
        each_epoch(lambda ns: [(n, n * ns.count(n)) for n in set(ns)]),
        ONLY_ARROW,
        "without a start, column",
    ),
    of_epoch(
        "aggregate",
        lambda stream, number: stream.aggregate(lambda n: number(n) < 0, add=lambda one, other: one * other),
        each_epoch(lambda ns: [(key, math.prod(n for n in ns if (n < 0) == key)) for key in {n < 0 for n in ns}]),
        ONLY_LISTS,
        "without a start, product",
    ),
    of_epoch(
        "aggregate",
        lambda stream, number: stream.aggregate(
            lambda record: number_of(record) % 3,
            start=lambda: (0, 0),
            add=lambda state, row: (state[0] + number(row), state[1] + 1),
        ),
        each_epoch(lambda ns: [(key, (sum(found), len(found))) for key, found in by_remainder(ns).items()]),
    ),
    of_epoch(
        "aggregate",
        lambda stream, number: stream.aggregate(
            lambda record: number_of(record) % 3,
            start=lambda: (0, 0),
            add=lambda state, row: (state[0] + number(row), state[1] + 1),
            finish=lambda key, state: (key, state[0] / state[1]),
            combine=lambda one, other: (one[0] + other[0], one[1] + other[1]),
        ),
        each_epoch(lambda ns: [(key, sum(found) / len(found)) for key, found in by_remainder(ns).items()]),
        name="combined",
    ),
    of_epoch(
        "aggregate",
        lambda stream, _: stream.aggregate(
            lambda record: no_fives(record) % 3,
            start=int,
            add=lambda total, record: total + number_of(record),
            combine=add,
            dead_letters=letters(stream),
        ),
        each_epoch(lambda ns: [(key, sum(found)) for key, found in by_remainder(others(ns)).items()]),
        name="dead letters",
    ),
    of_epoch(
        "aggregate",
        lambda stream, number: stream.aggregate(
            lambda record: number(record) % 2, start=list, add=in_place, finish=lambda key, state: (key, sorted(state))
        ),
        each_epoch(lambda ns: [(key, sorted(n for n in ns if n % 2 == key)) for key in {n % 2 for n in ns}]),
        name="in place",
    ),
    of_epoch(
        "aggregate",
        lambda stream, number: stream.aggregate(
            lambda record: number(record) % 2,
            start=list,
            add=in_place,
            finish=lambda key, state: (key, sorted(state)),
            combine=both_in_place,
        ),
        each_epoch(lambda ns: [(key, sorted(n for n in ns if n % 2 == key)) for key in {n % 2 for n in ns}]),
        name="in place, combined",
    ),
    of_epoch(
        "aggregate",
        lambda stream, number: stream.aggregate(
            "n", start=int, add=lambda total, row: total + number(row), combine=int.__add__
        ),
        each_epoch(lambda ns: [(n, n * ns.count(n)) for n in set(ns)]),
        ONLY_ARROW,
        "column",
    ),
    of_epoch(
        "group_by",
        lambda stream, _: stream.group_by("n").aggregate(rows="count_all", total=("n", "sum"), mean=("n", "mean")),
        each_epoch(
            lambda ns: [{"n": n, "rows": ns.count(n), "total": n * ns.count(n), "mean": float(n)} for n in set(ns)]
        ),
        ONLY_ARROW,
        gives="tables",
    ),
    of_epoch(
        "for_each_epoch",
        lambda stream, number: stream.for_each_epoch(lambda time, found: (time, sorted(map(number, found)))),
        lambda feed: {time: [(time, sorted(ns))] for time, ns in by_time(feed).items()},
        loop="another",
    ),
    of_epoch(
        "for_each_epoch",
        lambda stream, number: stream.for_each_epoch(lambda time, found: sum(map(number, found))),
        each_epoch(lambda ns: [sum(ns)]),
        name="without its time",
    ),
]


# ---------------------------------------------------------------------- state by key, over all epochs


def differences(earlier: list[int], numbers: list[int]) -> Iterable[tuple[int, int]]:
    """Return each number with its difference to the one of its remainder before."""
    for place, number in enumerate(numbers):
        before = [n for n in earlier + numbers[:place] if n % 3 == number % 3]
        yield number, number - (before[-1] if before else 0)


def three_of_a_kind(seen: Any, record: Any) -> tuple[Any, list[tuple[int, ...]]]:
    """Gather numbers of a remainder; with the third, send them and begin anew."""
    seen.append(number_of(record))
    return (None, [(seen[0] % 2, *seen)]) if len(seen) == 3 else (seen, [])


def triples(earlier: list[int], numbers: list[int]) -> Iterable[tuple[int, ...]]:
    """Return each third number of a remainder with the two before."""
    for place, number in enumerate(numbers):
        alike = [n for n in [*earlier, *numbers[:place], number] if n % 2 == number % 2]
        if len(alike) % 3 == 0:
            yield number % 2, *alike[-3:]


def good_totals(earlier: list[int], numbers: list[int]) -> Iterable[tuple[int, int]]:
    """Return the sum of all numbers so far, without multiples of five, for each remainder that these numbers have."""
    totals = by_remainder(others(earlier + numbers))
    return [(key, sum(totals[key])) for key in by_remainder(others(numbers))]


KEYS = [
    of_all_epochs(
        "accumulate",
        lambda stream, number: stream.accumulate(
            lambda record: number_of(record) % 3, start=int, add=lambda total, record: total + number(record)
        ),
        with_earlier(lambda earlier, ns: [(key, sum(by_remainder(earlier + ns)[key])) for key in by_remainder(ns)]),
    ),
    of_all_epochs(
        "accumulate",
        lambda stream, _: stream.accumulate(
            lambda record: number_of(record) % 3,
            start=int,
            add=lambda total, record: total + no_fives(record),
            dead_letters=letters(stream),
        ),
        with_earlier(good_totals),
        name="dead letters",
    ),
    of_all_epochs(
        "accumulate",
        lambda stream, number: stream.accumulate(
            "n", start=int, add=lambda many, row: many + bool(row), finish=lambda key, many: (number(key), many)
        ),
        with_earlier(lambda earlier, ns: [(n, (earlier + ns).count(n)) for n in set(ns)]),
        ONLY_ARROW,
        "column",
    ),
    of_all_epochs(
        "stateful_map",
        lambda stream, number: stream.stateful_map(
            lambda record: number_of(record) % 3,
            start=int,
            step=lambda last, record: (number_of(record), (number_of(record), number_of(record) - last)),
            order=number,
        ),
        with_earlier(differences),
    ),
    of_all_epochs(
        "stateful_map",
        lambda stream, number: stream.stateful_map(
            "n", start=int, step=lambda many, row: (many + 1, (number(row), many + 1))
        ),
        with_earlier(lambda earlier, ns: [(n, (earlier + ns[: at + 1]).count(n)) for at, n in enumerate(ns)]),
        ONLY_ARROW,
        "column",
    ),
    of_all_epochs(
        "stateful_map",
        lambda stream, number: stream.stateful_map(
            lambda record: number_of(record) % 2, start=list, step=three_of_a_kind, order=number
        ).flat_map(list),
        with_earlier(triples),
        name="any number of results",
    ),
    of_all_epochs(
        "deduplicate",
        lambda stream, _: stream.deduplicate(),
        with_earlier(lambda earlier, ns: set(ns) - set(earlier)),
        gives="the same",
    ),
    of_all_epochs(
        "deduplicate",
        lambda stream, number: stream.deduplicate(lambda record: number(record) % 5, number),
        with_earlier(
            lambda earlier, ns: [
                min(n for n in ns if n % 5 == key) for key in {n % 5 for n in ns} - {n % 5 for n in earlier}
            ]
        ),
        name="key",
        gives="the same",
    ),
    of_all_epochs(
        "deduplicate",
        lambda stream, _: stream.deduplicate("n"),
        with_earlier(lambda earlier, ns: set(ns) - set(earlier)),
        ONLY_ARROW,
        "column",
        gives="the same",
    ),
]

# ---------------------------------------------------------------------- windows on event time


def rest_of_5(record: Any) -> int:
    return number_of(record) % 5


def with_numbers(result: tw.types.WindowResult[list[Any]]) -> tuple[Any, ...]:
    return (*result[:3], [number_of(record) for record in result.value])


def events(feed: Feed) -> dict[int, list[Event]]:
    """Return the numbers of a feed as events that happened at their number; their key is the remainder."""
    return {time: [Event(n % 5, n, n) for n in ns] for time, ns in by_time(feed).items()}


def counted(found: Mapping[int, list[tuple[Any, ...]]]) -> Results:
    """Return windows with the numbers of their events instead of these."""
    return {epoch: [(*one[:3], len(one[3])) for one in results] for epoch, results in found.items()}


def in_windows(kind: Kind, lateness: int = 0) -> Callable[[Feed], Mapping[int, list[tuple[Any, ...]]]]:
    return lambda feed: expected_windows(kind, events(feed), lateness).results


SLIDING = tw.SlidingWindows(7, step=3, offset=1)

WINDOWS = [
    of_all_epochs(
        "window",
        lambda stream, number: stream.window(tw.TumblingWindows(5), key=rest_of_5, at=number).results.map(with_numbers),
        in_windows(tw.TumblingWindows(5)),
        name="tumbling",
        loop="refused",
    ),
    of_all_epochs(
        "window",
        lambda stream, number: (
            stream.window(
                SLIDING,
                key=rest_of_5,
                at=number_of,
                lateness=4,
                start=int,
                add=lambda count, row: count + (number(row) < 99),
            ).results
        ),
        lambda feed: counted(in_windows(SLIDING, 4)(feed)),
        name="sliding",
        loop="refused",
    ),
    of_all_epochs(
        "window",
        lambda stream, number: (
            stream.window(tw.SessionWindows(4), key=lambda record: number(record) % 5, at=number_of, lateness=3).results
        ).map(with_numbers),
        in_windows(tw.SessionWindows(4), 3),
        name="sessions",
        loop="refused",
    ),
    of_all_epochs(
        "window",
        lambda stream, _: (
            stream.window(
                tw.SessionWindows(4), key=rest_of_5, at=number_of, start=int, add=lambda n, record: n + 1, combine=add
            ).results
        ),
        lambda feed: counted(in_windows(tw.SessionWindows(4))(feed)),
        name="merged",
        loop="refused",
    ),
    of_all_epochs(
        "window",
        lambda stream, _: stream.window(tw.SlidingWindows(4, step=2), key=rest_of_5, at=number_of).late.map(
            lambda late: (*late[:3], number_of(late.record))
        ),
        lambda feed: expected_windows(tw.SlidingWindows(4, step=2), events(feed)).late,
        name="late",
        loop="refused",
    ),
    of_all_epochs(
        "window",
        lambda stream, _: stream.window(tw.TumblingWindows(7), key="n", at="n").results.map(with_numbers),
        lambda feed: (
            expected_windows(
                tw.TumblingWindows(7), {time: [Event(n, n, n) for n in ns] for time, ns in by_time(feed).items()}
            ).results
        ),
        ONLY_ARROW,
        "columns",
        loop="refused",
    ),
    of_epoch(
        "window",
        lambda stream, _: stream.window(tw.SlidingWindows(3, step=2), key=rest_of_5, at=None, finish=len).results,
        lambda feed: {
            time: bag.elements() for time, bag in epoch_windows(tw.SlidingWindows(3, step=2), events(feed)).items()
        },
        name="epochs",
        loop="refused",
    ),
    of_epoch(
        "window",
        lambda stream, _: stream.window(tw.SessionWindows(2), key=rest_of_5, at=None, finish=len).results,
        lambda feed: {time: bag.elements() for time, bag in epoch_windows(tw.SessionWindows(2), events(feed)).items()},
        name="sessions of epochs",
        loop="refused",
    ),
]

# ---------------------------------------------------------------------- joins


def pair_of_numbers(pair: Any) -> tuple[int, int]:
    return number_of(pair[0]), number_of(pair[1])


def sorted_group(group: Any) -> Any:
    """Return a group of numbers with its lists in order."""
    key, lefts, rights = group
    return key, sorted(map(number_of, lefts)), sorted(map(number_of, rights))


def squares_of_evens(table: Any) -> Any:
    """Return rows (of, square) for each even number; ``of`` is a float."""
    evens = np.array([n for n in table["n"].to_pylist() if n % 2 == 0], dtype=np.int64)
    return pa.table({"of": evens.astype(np.float64), "square": evens * evens})


def pairs_so_far(do_match: Callable[[int, int], bool], result: Callable[[int, int], Any]) -> Callable[[Feed], Results]:
    """Return ``result`` of all pairs of numbers of any epochs that match, at the later of the two times."""

    def results(feed: Feed) -> Results:
        sent = [(time, n) for time, ns in feed for n in ns]
        found = defaultdict(list)
        for time, n in sent:
            for other_time, m in sent:
                if do_match(n, m):
                    found[max(time, other_time)].append(result(n, m))
        return found

    return results


JOINS = [
    of_epoch(
        "join",
        lambda stream, number: stream.join(stream, number, lambda record: number(record) + 1).map(pair_of_numbers),
        each_epoch(lambda ns: [(n, m) for n in ns for m in ns if n == m + 1]),
    ),
    of_epoch(
        "join",
        lambda stream, number: stream.join(stream.filter(lambda n: n > 3), lambda n: number(n) // 2, how="left"),
        each_epoch(
            lambda ns: [
                *((n, m) for n in ns for m in ns if m > 3 and n // 2 == m // 2),
                *((n, None) for n in ns if not any(m > 3 and n // 2 == m // 2 for m in ns)),
            ]
        ),
        ONLY_LISTS,
        "left",
    ),
    of_epoch(
        "join",
        lambda stream, _: stream.join(stream.map_batches(squares_of_evens), "n", "of"),
        each_epoch(lambda ns: [{"n": n, "square": m * m} for n in ns for m in ns if n == m and m % 2 == 0]),
        ONLY_ARROW,
        "by names",
        gives="tables",
    ),
    of_epoch(
        "join",
        lambda stream, _: stream.join(stream, "n", suffix="_2"),
        each_epoch(lambda ns: [n for n in ns for m in ns if n == m]),
        ONLY_ARROW,
        "with itself",
        gives="tables",
    ),
    of_epoch(
        "cogroup",
        lambda stream, number: stream.cogroup(
            stream.filter(lambda record: number_of(record) % 2 == 0), lambda record: number(record) % 3
        ).map(sorted_group),
        each_epoch(
            lambda ns: [
                (key, sorted(found), sorted(n for n in found if n % 2 == 0)) for key, found in by_remainder(ns).items()
            ]
        ),
    ),
    of_epoch(
        "cogroup",
        lambda stream, _: stream.cogroup(stream, "n", ("n",)).map(sorted_group),
        each_epoch(lambda ns: [(n, [n] * count, [n] * count) for n, count in Counter(ns).items()]),
        ONLY_ARROW,
        "by names",
    ),
    of_all_epochs(
        "join_across_epochs",
        lambda stream, number: stream.join_across_epochs(stream, number, lambda record: number(record) + 1).map(
            pair_of_numbers
        ),
        pairs_so_far(lambda n, m: n == m + 1, lambda n, m: (n, m)),
        loop="refused",
    ),
    of_all_epochs(
        "join_across_epochs",
        lambda stream, _: stream.join_across_epochs(stream, "n", suffix="_2"),
        pairs_so_far(lambda n, m: n == m, lambda n, m: n),
        ONLY_ARROW,
        "by names",
        gives="tables",
        loop="refused",
    ),
    of_all_epochs(
        "interval_join",
        lambda stream, number: stream.interval_join(
            stream, lambda record: 0, at=number, within=(-1, 2), lateness=100
        ).results.map(pair_of_numbers),
        pairs_so_far(lambda n, m: -1 <= m - n <= 2, lambda n, m: (n, m)),
        loop="refused",
    ),
    of_all_epochs(
        "interval_join",
        lambda stream, _: stream.interval_join(stream, "n", at="n", within=(0, 0), lateness=100, suffix="_2").results,
        pairs_so_far(lambda n, m: n == m, lambda n, m: n),
        ONLY_ARROW,
        "by names",
        gives="tables",
        loop="refused",
    ),
]

# ---------------------------------------------------------------------- out of the dataflow


def stored_and_read(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    path = scratch() / "db"
    stored = stream.map(number_of).sink(Table(path))
    return stored.flat_map(lambda time: read_table(path)[time])


OUTPUTS = [
    OperatorCase(
        "capture",
        lambda stream, _: stream.capture("case of capture"),
        each_epoch(list),
        gives="the same",
        order="kept",
        keeps="all epochs",
    ),
    OperatorCase(
        "capture_to",
        lambda stream, _: stream.capture_to(scratch()),
        each_epoch(list),
        gives="the same",
        order="kept",
        keeps="all epochs",
    ),
    of_all_epochs(
        "publish",
        lambda stream, _: stream.publish(f"case of publish/{uuid.uuid4().hex}"),
        each_epoch(list),
        gives="the same",
    ),
    of_epoch(
        "write_files",
        lambda stream, _: stream.write_files(scratch()).flat_map(numbers_in),
        each_epoch(list),
        name="parquet",
    ),
    of_epoch(
        "write_files",
        lambda stream, _: stream.write_files(scratch(), "csv", file_bytes=100).flat_map(numbers_in),
        each_epoch(list),
        name="csv",
    ),
    of_epoch(
        "write_files",
        lambda stream, _: stream.write_files(str(scratch()), "jsonl", overwrite=True).flat_map(numbers_in),
        each_epoch(list),
        name="jsonl",
    ),
    of_epoch("sink", lambda stream, _: stored_and_read(stream), each_epoch(list), loop="refused"),
]

# ---------------------------------------------------------------------- collections

Collection = Any
"""A `tw.Collection`, or a `PlainCollection`: rows of collections do the same with both."""


def all_so_far(feed: Feed, function: Callable[[Collection], Collection]) -> Results:
    """Return the changes, at each epoch, of what a function makes of the bag of all numbers until then."""
    present: Counter[int] = Counter()
    before: dict[Any, int] = {}
    found = {}
    for time, numbers in by_time(feed).items():
        present.update(numbers)
        after = function(PlainCollection(present)).counts
        changes = {record: after.get(record, 0) - before.get(record, 0) for record in {*before, *after}}
        found[time] = [change for change in changes.items() if change[1]]
        before = after
    return found


def of_collection(
    operator: str,
    function: Callable[[Collection, Read], Collection],
    name: str = "",
    plain: Callable[[Collection, Read], Collection] | None = None,
    **more: Any,
) -> OperatorCase:
    """Return the row of a method of collections.

    Args:
        operator: the method.
        function: calls it for a collection of numbers.
        name: which use this is.
        plain: what plain Python does, if that is not the same.
        more: other columns.
    """
    columns: dict[str, Any] = {"kinds": ONLY_LISTS, "loop": "another", "keeps": "all epochs", **more}

    @wraps(function)
    def put(stream: tw.Stream[Any], number: Read) -> tw.Stream[Any]:
        return function(stream.as_collection(), number).changes()  # type: ignore[no-any-return]

    return OperatorCase(
        f"Collection.{operator}",
        put,
        lambda feed: all_so_far(feed, lambda numbers: (plain or function)(numbers, number_of)),
        name=name,
        **columns,
    )


def pairs(numbers: Collection, number: Read) -> Collection:
    """Return a collection of (remainder, number)."""
    return numbers.map(lambda n: (number(n) % 3, n))


def joined_sums(numbers: Collection, number: Read = number_of) -> Collection:
    """Return (remainder, sum of its numbers less one of them)."""
    keyed = pairs(numbers, number_of)
    return keyed.reduce_sum().join(keyed, lambda key, total, n: (key, total - number(n)))


def halved(numbers: Collection, number: Read = number_of) -> Collection:
    """Return the numbers that come of some by halving, again and again."""
    return numbers.iterate(lambda inner: inner.map(lambda n: number(n) // 2).concat(inner).distinct())


COLLECTIONS = [
    of_all_epochs(
        "as_collection",
        lambda stream, _: stream.as_collection().distinct().changes(),
        lambda feed: all_so_far(feed, lambda numbers: numbers.distinct()),
        (LISTS, ARRAYS),
        loop="another",
    ),
    of_all_epochs(
        "as_collection",
        lambda stream, _: halved(stream.as_collection(columns=["n"])).changes(),
        lambda feed: all_so_far(feed, halved),
        ONLY_ARROW,
        "columns",
        loop="another",
    ),
    of_all_epochs(
        "as_collection",
        lambda stream, _: (
            stream.map(lambda n: (n % 3, n)).as_collection(upserts=True).map(lambda pair: pair[0]).changes()
        ),
        lambda feed: all_so_far(feed, lambda numbers: numbers.map(lambda n: n % 3).distinct()),
        ONLY_LISTS,
        "upserts",
        loop="refused",
    ),
    of_all_epochs(
        "as_collection",
        lambda stream, _: joined_sums(stream.as_collection()).changes(),
        lambda feed: all_so_far(feed, joined_sums),
        ONLY_LISTS,
        "join",
        loop="another",
    ),
    of_collection("map", lambda numbers, number: numbers.map(lambda n: number(n) // 2), keeps="an epoch"),
    of_collection("filter", lambda numbers, number: numbers.filter(lambda n: number(n) % 2), keeps="an epoch"),
    of_collection(
        "flat_map", lambda numbers, number: numbers.flat_map(lambda n: [n] * (number(n) % 3)), keeps="an epoch"
    ),
    of_collection("concat", lambda numbers, _: numbers.concat(numbers, numbers), keeps="an epoch"),
    of_collection("negate", lambda numbers, _: numbers.negate(), keeps="an epoch"),
    of_collection("empty", lambda numbers, _: numbers.empty().concat(numbers), keeps="an epoch"),
    of_collection("consolidate", lambda numbers, _: numbers.consolidate(), keeps="an epoch"),
    of_collection("changes", lambda numbers, _: numbers, keeps="an epoch"),
    of_collection("distinct", lambda numbers, _: numbers.distinct()),
    of_collection("threshold", lambda numbers, number: numbers.threshold(lambda n, count: min(count, number(n) % 3))),
    of_collection("count", lambda numbers, _: numbers.count()),
    of_collection(
        "reduce",
        lambda numbers, number: pairs(numbers, number_of).reduce(lambda key, ns: [sum(map(number, ns)), len(ns)]),
    ),
    of_collection("reduce_min", lambda numbers, _: pairs(numbers, number_of).reduce_min()),
    of_collection("reduce_max", lambda numbers, _: pairs(numbers, number_of).reduce_max()),
    of_collection("reduce_sum", lambda numbers, _: pairs(numbers, number_of).reduce_sum()),
    of_collection("reduce_mean", lambda numbers, _: pairs(numbers, number_of).reduce_mean()),
    of_collection("top_k", lambda numbers, _: pairs(numbers, number_of).top_k(2)),
    of_collection(
        "upserts",
        lambda numbers, _: pairs(numbers, number_of).reduce_max().upserts().as_collection(upserts=True),
        plain=lambda numbers, _: pairs(numbers, number_of).reduce_max(),
        loop="refused",
    ),
    of_collection("join", joined_sums),
    of_collection(
        "semijoin", lambda numbers, _: pairs(numbers, number_of).semijoin(numbers.filter(lambda n: n in {0, 2}))
    ),
    of_collection(
        "antijoin", lambda numbers, _: pairs(numbers, number_of).antijoin(numbers.filter(lambda n: n in {0, 2}))
    ),
    of_collection("iterate", halved),
    of_collection(
        "enter_at",
        lambda numbers, number: numbers.empty().iterate(
            lambda inner: inner.map(lambda n: n // 2).concat(numbers.enter_at(lambda n: 2 * number(n))).distinct()
        ),
    ),
    of_collection(
        "lookup",
        lambda numbers, _: pairs(numbers, number_of).lookup("pairs"),
        plain=pairs,
        loop="refused",
    ),
    of_epoch(
        "Collection.select",
        lambda stream, _: stream.as_collection(columns=["n"]).select(twice=pc.field("n") * 2).changes(),
        lambda feed: all_so_far(feed, lambda numbers: numbers.map(lambda n: 2 * n)),
        ONLY_ARROW,
        loop="another",
    ),
]

TABLE = [*RECORDS, *ROUTING, *TIMES, *OWN, *EPOCHS, *KEYS, *WINDOWS, *JOINS, *OUTPUTS, *COLLECTIONS]

STREAMS = [case for case in TABLE if not case.operator.startswith("Collection.")]
"""The rows of methods of streams, for tests that take long."""
