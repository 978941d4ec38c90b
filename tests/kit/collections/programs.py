"""Random programs of collections of pairs, and random histories of their inputs.

A program is a tree of tuples, ``(operator, argument, ...)``. `interpret` builds it of `tidewheel.Collection`, and of
`PlainCollection` just as well. A `Language` has the operators. Those of `SMALL` return pairs of numbers below `SIZE`,
so that any may follow.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import strategies as st

SIZE = 4
INPUTS = 2

Program: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Language:
    """The operators of programs, by name.

    Attributes:
        one: the operators of one collection.
        in_loops: those of one collection that are for the bodies of loops.
        two: the operators of two collections.
        outside: operators of one collection that are for programs outside of loops.
    """

    one: Mapping[str, Callable[[Any], Any]]
    in_loops: Mapping[str, Callable[[Any], Any]]
    two: Mapping[str, Callable[[Any, Any], Any]]
    outside: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


def _short(record: Any) -> tuple[int, int]:
    """Make a pair of small numbers of a pair of any two."""
    return int(record[0]) % SIZE, int(record[1]) % SIZE


def _first_two(record: Any) -> tuple[int, int]:
    (key, _), count = record
    return key, count % SIZE


def _halves(key: Any, values: list[Any]) -> list[Any]:
    total = sum(values)
    return [total / 2 if total % 2 else total // 2]


def clipped(record: Any, count: int) -> int:
    return max(-2, min(2, count))


def _with_itself(texts: Any) -> Any:
    return texts.join(texts, lambda key, left, right: (int(left), int(right)))


ONE: Mapping[str, Callable[[Any], Any]] = {
    "swap": lambda c: c.map(lambda record: (record[1], record[0])),
    "swap columns": lambda c: c.map(lambda key, value: (value, key), columns=True),
    "next": lambda c: c.map(lambda record: (record[0], (record[1] + 1) % SIZE)),
    "less": lambda c: c.filter(lambda record: record[0] <= record[1]),
    "even columns": lambda c: c.filter(lambda key, value: (key + value) % 2 == 0, columns=True),
    "both": lambda c: c.flat_map(lambda record: [record, (record[0], record[0])][: record[1]]),
    "negate": lambda c: c.negate(),
    "consolidate": lambda c: c.consolidate(),
    "empty": lambda c: c.empty(),
    "distinct": lambda c: c.distinct(),
    "distinct keys": lambda c: c.map(lambda record: record[0]).distinct().map(lambda key: (key, key)),
    "count": lambda c: c.count().map(_first_two),
    "threshold": lambda c: c.threshold(lambda record, count: count // 2),
    "reduce": lambda c: c.reduce(lambda key, values: [len(values) % SIZE, sum(values) % SIZE]),
    "reduce to halves": lambda c: c.reduce(_halves).map(_short),
    "min": lambda c: c.reduce_min(),
    "max": lambda c: c.reduce_max(),
    "sum": lambda c: c.reduce_sum().map(_short),
    "mean": lambda c: c.reduce_mean().map(_short),
    "top": lambda c: c.top_k(2),
    "least": lambda c: c.top_k(1, greatest=False),
    "texts": lambda c: _with_itself(c.map(lambda r: (str(r[0]), str(r[1]))).distinct()),
    "words": lambda c: c.map(lambda r: (str(r[0]), r)).reduce_min().map(lambda r: r[1]),
}
"""The operators of one collection."""

IN_LOOPS: Mapping[str, Callable[[Any], Any]] = {
    "late": lambda c: c.enter_at(lambda record: 3 * record[1] - 1),
    "late columns": lambda c: c.enter_at(lambda key, value: 2 * key * value, columns=True),
}
"""The operators of one collection for the bodies of loops."""

TWO: Mapping[str, Callable[[Any, Any], Any]] = {
    "concat": lambda one, other: one.concat(other),
    "join": lambda one, other: one.join(other).map(lambda record: record[1]),
    "join by": lambda one, other: one.join(other, lambda key, left, right: (left, (key + right) % SIZE)),
    "join columns": lambda one, other: one.join(other, lambda key, left, right: (right, left), columns=True),
    "semijoin": lambda one, other: one.semijoin(other.map(lambda record: record[1])),
    "antijoin": lambda one, other: one.antijoin(other.map(lambda record: record[1])),
    "antijoin pairs": lambda one, other: one.map(lambda r: (r, 1)).antijoin(other).map(lambda record: record[0]),
}
"""The operators of two."""

SMALL = Language(ONE, IN_LOOPS, TWO)


def interpret(
    program: Program, inputs: Sequence[Any], variables: Sequence[Any] = (), language: Language = SMALL
) -> Any:
    """Return what a program makes of its inputs, collections of any class."""
    name, *arguments = program
    if name == "input":
        return inputs[arguments[0]]
    if name == "variable":
        return variables[arguments[0]]
    of_one = {**language.one, **language.in_loops, **language.outside}
    if name in of_one:
        return of_one[name](interpret(arguments[0], inputs, variables, language))
    if name in language.two:
        return language.two[name](*(interpret(argument, inputs, variables, language) for argument in arguments))

    def body(*inner: Any) -> Any:
        return interpret(arguments[-1], inputs, [*variables, *inner], language)

    start = interpret(arguments[0], inputs, variables, language).threshold(clipped)
    if name == "closure":  # it only grows, so it ends
        return start.distinct().iterate(lambda inner: body(inner).distinct().concat(inner).distinct())
    if name == "from nothing":
        return start.empty().iterate(lambda inner: body(inner).distinct().concat(inner, start.distinct()).distinct())
    if name == "rounds":
        return start.iterate(lambda inner: body(inner).threshold(clipped), max_rounds=arguments[1])
    assert name == "together"
    other = interpret(arguments[1], inputs, variables, language).threshold(clipped)

    def both(one: Any, two: Any) -> Any:
        return body(one, two).distinct().concat(one).distinct(), one.concat(two).distinct()

    return start.distinct().iterate(both, other.distinct())[0]


@st.composite
def programs(draw: st.DrawFn, size: int = 5, variables: int = 0, language: Language = SMALL) -> Program:
    """Programs of at most about so many operators, in a loop with so many variables."""
    leaves = [("input", number) for number in range(INPUTS)] + [("variable", number) for number in range(variables)]
    if size <= 0:
        return draw(st.sampled_from(leaves))
    kind = draw(st.sampled_from(("one", "two", "one", "two", "closure", "from nothing", "rounds", "together")))
    if kind == "one":
        names = [*sorted(language.one), *(sorted(language.in_loops) * 3 if variables else sorted(language.outside))]
        return draw(st.sampled_from(names)), draw(programs(size - 1, variables, language))
    if kind == "two":
        left = draw(st.integers(0, size - 1))
        return (
            draw(st.sampled_from(sorted(language.two))),
            draw(programs(left, variables, language)),
            draw(programs(size - 1 - left, variables, language)),
        )
    start = draw(programs(draw(st.integers(0, 1)), variables, language))
    if kind in {"closure", "from nothing"}:
        return kind, start, draw(programs(size - 2, variables + 1, language))
    if kind == "rounds":
        return kind, start, draw(st.integers(1, 3)), draw(programs(size - 2, variables + 1, language))
    return kind, start, draw(programs(0, variables, language)), draw(programs(size - 2, variables + 2, language))


@dataclass(frozen=True, slots=True)
class Change:
    """A batch of changes of one input, [(record, count)], which one worker receives at an epoch."""

    epoch: int
    input: int
    worker: int
    updates: list[tuple[Any, int]]


Records = st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1))


@st.composite
def histories(draw: st.DrawFn, epochs: int = 4) -> list[Change]:
    """Changes in the order in which they are sent; epochs never go back."""
    epoch, found = 0, []
    for _ in range(draw(st.integers(1, 6))):
        epoch = min(epoch + draw(st.integers(0, 2)), epochs - 1)
        updates = draw(st.lists(st.tuples(Records, st.sampled_from((1, 1, 1, -1, 2))), min_size=1, max_size=6))
        found.append(Change(epoch, draw(st.integers(0, INPUTS - 1)), draw(st.integers(0, 3)), updates))
    return found


def inputs_at(history: Sequence[Change], epoch: int) -> list[Counter[Any]]:
    """Return the records of each input at an epoch, with their counts."""
    found: list[Counter[Any]] = [Counter() for _ in range(INPUTS)]
    for change in history:
        if change.epoch <= epoch:
            for record, count in change.updates:
                found[change.input][record] += count
    return found
