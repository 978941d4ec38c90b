"""Hypothesis strategies of the progress layer, and the settings that its laws share."""

import os
from collections.abc import Sequence
from itertools import takewhile
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.laws.domains import INTEGERS, small_summaries, small_times, summary_pool, time_pool
from tests.laws.graphs import GraphLimits, random_graph, random_ring
from tests.laws.nested_graphs import nested_graph
from tidewheel.progress import GraphShape, Nesting, PathSummary, Summary, Time, TimeDomain

EXAMPLES = float(os.environ.get("TIDEWHEEL_EXAMPLES") or 0.5)
"""The share of its examples that a law tries: half in `make test`, five times all of them in `make long`."""


def law_settings(max_examples: int) -> settings:
    """Return settings that print how to reproduce a failure, and set no deadline: machines differ."""
    return settings(
        max_examples=max(1, round(EXAMPLES * max_examples)),
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


SEEDS = st.integers(0, 2**32 - 1)
"""Seeds for what is random but not worth shrinking: schedules."""


@st.composite
def randoms(draw: st.DrawFn) -> Random:
    """Sources of randomness: most from plain seeds, which make more loops; the others Hypothesis can make smaller."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.randoms(use_true_random=False))
    return Random(draw(SEEDS))


def times(domain: TimeDomain) -> st.SearchStrategy[Time]:
    """Times of ``domain``, the minimum and the greatest among them."""
    return st.sampled_from(time_pool(domain))


def summaries(domain: TimeDomain) -> st.SearchStrategy[Summary]:
    """Summaries of ``domain``, the identity and some that few times pass among them."""
    return st.sampled_from(summary_pool(domain))


def count_changes(domain: TimeDomain, max_size: int = 6) -> st.SearchStrategy[list[tuple[Time, int]]]:
    """Signed changes of the counts of times, as one batch."""
    near = st.sampled_from(time_pool(domain)[:12])  # few times, so that changes meet
    return st.lists(st.tuples(near, st.integers(-2, 2)), max_size=max_size)


@st.composite
def nestings(draw: st.DrawFn, coordinates: Sequence[TimeDomain] = (INTEGERS,), max_depth: int = 3) -> Nesting:
    """Nestings of any depth up to ``max_depth``, each coordinate of one of the given domains."""
    return Nesting(
        tuple(
            draw(
                st.lists(
                    st.sampled_from(coordinates), min_size=1 + draw(st.integers(0, max_depth)), max_size=max_depth + 1
                )
            )
        )
    )


@st.composite
def nesting_pairs(
    draw: st.DrawFn, coordinates: Sequence[TimeDomain] = (INTEGERS,), max_depth: int = 3
) -> tuple[Nesting, Nesting]:
    """Nestings of the two ends of a path: they have at least the outermost scope in common."""
    source = draw(nestings(coordinates, max_depth))
    target = draw(nestings(coordinates, max_depth))
    shared = draw(st.integers(1, len(source.coordinate_domains)))
    domains = (*source.coordinate_domains[:shared], *target.coordinate_domains[shared:])
    return source, Nesting(domains[: max_depth + 1])


@st.composite
def path_summaries(draw: st.DrawFn, source: Nesting, target: Nesting, *, small: bool = False) -> PathSummary:
    """Summaries from ``source`` to ``target`` that keep any number of the coordinates that both have."""
    pairs = zip(source.coordinate_domains, target.coordinate_domains, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    kept = draw(st.integers(1, common))
    pool, later = (small_summaries, small_times) if small else (summary_pool, time_pool)
    return PathSummary(
        source,
        target,
        tuple(draw(st.sampled_from(pool(domain))) for domain in source.coordinate_domains[:kept]),
        tuple(draw(st.sampled_from(later(domain))) for domain in target.coordinate_domains[kept:]),
    )


@st.composite
def journeys(
    draw: st.DrawFn, start: Nesting, coordinates: Sequence[TimeDomain] = (INTEGERS,), *, small: bool = False
) -> list[PathSummary]:
    """Legal sequences of single steps from ``start``: entering, leaving, and advancing the innermost coordinate."""
    steps: list[PathSummary] = []
    nesting = start
    pool = small_summaries if small else summary_pool
    for move in draw(st.lists(st.sampled_from(("advance", "enter", "leave")), max_size=7)):
        if move == "advance":
            steps.append(PathSummary.advance(nesting, draw(st.sampled_from(pool(nesting.coordinate_domains[-1])))))
        elif move == "enter" and nesting.depth < 3:
            steps.append(PathSummary.enter(nesting.inside(draw(st.sampled_from(coordinates)))))
        elif move == "leave" and nesting.depth > 0:
            steps.append(PathSummary.leave(nesting))
        nesting = steps[-1].target if steps else start
    return steps


def graphs(limits: GraphLimits | None = None, *, idle_cycles: bool = False) -> st.SearchStrategy[GraphShape]:
    """Graphs with loops and nested scopes, as `random_graph` makes them."""
    return randoms().map(lambda random: random_graph(random, limits, idle_cycles=idle_cycles))


def nested_graphs() -> st.SearchStrategy[GraphShape]:
    """Graphs of loops in loops, as `nested_graph` makes them; each is as small as it is."""
    return SEEDS.map(Random).map(nested_graph)


def rings(limits: GraphLimits | None = None) -> st.SearchStrategy[GraphShape]:
    """Single cycles, as `random_ring` makes them. They are small as they are."""
    return SEEDS.map(Random).map(lambda random: random_ring(random, limits))
