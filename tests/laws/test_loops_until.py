"""Random loops that a test of whole rounds ends, against loops of plain Python."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import Case, Feed, bags, expected, operator_settings, run

MODULUS = 97


@dataclass(frozen=True)
class Part:
    """A part of the body of a loop: as operators, and on a list of all numbers of a round."""

    name: str
    describe: Callable[[tw.Stream[int]], tw.Stream[int]]
    plain: Callable[[list[int]], list[int]]

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Ending:
    """A measure of a round and a predicate on it."""

    measure: Callable[[int], Any]
    combine: Callable[[Any, Any], Any] | None
    together: Callable[[list[int]], Any]
    until: Callable[[Any], object]


def affine(factor: int, more: int) -> Part:
    def each(n: int) -> int:
        return (factor * n + more) % MODULUS

    return Part(f"{factor}n+{more}", lambda s: s.map(each), lambda numbers: [*map(each, numbers)])


def sums(keys: int) -> Part:
    def plain(numbers: list[int]) -> list[int]:
        totals: Counter[int] = Counter()
        for n in numbers:
            totals[n % keys] += n
        return [totals[key] % MODULUS for key in {n % keys for n in numbers}]

    return Part(
        f"sums by {keys}",
        lambda s: s.aggregate(lambda n: n % keys, add=add).map(lambda pair: pair[1] % MODULUS),
        plain,
    )


def without(rest: int) -> Part:
    def keep(n: int) -> bool:
        return n % 7 != rest

    return Part(
        f"without {rest}", lambda s: s.exchange(lambda n: n).filter(keep), lambda numbers: [*filter(keep, numbers)]
    )


def split(most: int) -> Part:
    def plain(numbers: list[int]) -> list[int]:
        parts = [part for n in numbers for part in (n, n + 1)]
        return sorted(parts, reverse=True)[:most]

    return Part(f"split {most}", lambda s: s.rebalance().flat_map(lambda n: [n, n + 1]).top_k(most), plain)


PARTS = st.one_of(
    st.builds(affine, st.integers(1, 9), st.integers(0, 9)),
    st.builds(sums, st.integers(1, 5)),
    st.builds(without, st.integers(0, 6)),
    st.builds(split, st.integers(1, 12)),
)

ENDINGS = st.one_of(
    st.builds(lambda least: Ending(lambda n: n, None, sum, lambda total: total >= least), st.integers(0, 300)),
    st.builds(lambda most: Ending(lambda n: n, max, max, lambda greatest: greatest <= most), st.integers(0, 96)),
    st.builds(
        lambda least: Ending(
            lambda n: (n, 1),
            lambda one, other: (one[0] + other[0], one[1] + other[1]),
            lambda numbers: (sum(numbers), len(numbers)),
            lambda total: total[0] >= least * total[1],
        ),
        st.integers(30, 80),
    ),
)

FEEDS: st.SearchStrategy[Feed] = st.dictionaries(
    st.integers(0, 3), st.lists(st.integers(0, MODULUS - 1), min_size=1, max_size=8), min_size=1
).map(lambda epochs: sorted(epochs.items()))
"""Some numbers in each epoch, and several epochs in most."""


def loop(parts: list[Part], test: Ending, rounds: int) -> Callable[[list[int]], list[int]]:
    """Return what a loop makes of the numbers of an epoch, as a loop of plain Python."""

    def outcome(numbers: list[int]) -> list[int]:
        for _ in range(rounds):
            for part in parts:
                numbers = part.plain(numbers)
            if not numbers or test.until(test.together(numbers)):
                break
        return numbers

    return outcome


def body_of(parts: list[Part]) -> Callable[[tw.Stream[int]], tw.Stream[int]]:
    """Return the body of a loop that does all these one after the other."""

    def body(numbers: tw.Stream[int]) -> tw.Stream[int]:
        for part in parts:
            numbers = part.describe(numbers)
        return numbers.exchange(lambda n: n)

    return body


@operator_settings(150)
@given(FEEDS, st.lists(PARTS, min_size=1, max_size=3), ENDINGS, st.integers(1, 9), st.sampled_from((1, 2, 4)))
def test_a_loop_ends_where_one_of_plain_python_does(
    feed: Feed, parts: list[Part], test: Ending, rounds: int, workers: int
) -> None:
    """Any body, measure and test, several epochs at once: each ends in a round of its own, with its records."""
    results = run(
        lambda stream: stream.iterate(
            body_of(parts), until=test.until, measure=test.measure, combine=test.combine, max_rounds=rounds
        ),
        Case(feed, workers=workers),
    )
    assert bags(results) == expected(feed, loop(parts, test, rounds))


@operator_settings(60)
@given(
    FEEDS,
    st.lists(PARTS, min_size=1, max_size=2),
    ENDINGS,
    st.lists(PARTS, min_size=1, max_size=2),
    ENDINGS,
    st.sampled_from((1, 2, 4)),
)
def test_nested_loops_are_tested_each_by_itself(
    feed: Feed, inner: list[Part], inner_test: Ending, outer: list[Part], outer_test: Ending, workers: int
) -> None:
    """In each round of the outer loop the inner one ends in a round of its own."""

    def within(numbers: tw.Stream[int]) -> tw.Stream[int]:
        test = inner_test
        return body_of(outer)(numbers).iterate(
            body_of(inner), name="inner", until=test.until, measure=test.measure, combine=test.combine, max_rounds=4
        )

    results = run(
        lambda stream: stream.iterate(
            within,
            name="outer",
            until=outer_test.until,
            measure=outer_test.measure,
            combine=outer_test.combine,
            max_rounds=3,
        ),
        Case(feed, workers=workers),
    )
    as_part = Part("inner", lambda s: s, loop(inner, inner_test, 4))
    assert bags(results) == expected(feed, loop([*outer, as_part], outer_test, 3))
