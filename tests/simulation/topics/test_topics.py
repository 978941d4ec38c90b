"""Topics under random schedules: what subscribers are told is checked after every step, and all of it at the end.

``TIDEWHEEL_TOPIC_SIMULATIONS`` says how many and ``TIDEWHEEL_TOPIC_SIMULATION_SEED`` from which seed on; without it,
other ones in every run, and a failure says which. ``python -m tests.simulation topics --runs 100000`` runs more.
"""

from functools import partial

import pytest

from tests.kit.simulation.simulated_runs import SimulatedRuns
from tests.simulation.campaign import report_on
from tests.simulation.scenario import TOPICS
from tests.simulation.topics.topic_options import TopicOptions
from tests.simulation.topics.topic_simulation import Counts, TopicSimulation

RUNS = SimulatedRuns.asked("TOPIC_SIMULATION", 1200, chunks=8)
MANY = SimulatedRuns.asked("LONG_TOPIC_SIMULATION", 20_000, chunks=20)


@pytest.mark.parametrize("chunk", range(RUNS.chunks))
def test_random_topics_keep_all_promises(chunk: int) -> None:
    """Whole epochs or nothing, no holes, no frontier ahead of data, no memory beyond bounds, nobody hurt by another.

    Several partitions, both orders, late and slow subscribers with conditions, some of which hold back the publishers,
    failures and publishers that begin anew.
    """
    RUNS.check(chunk, partial(report_on, TOPICS))


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(MANY.chunks))
def test_many_random_topics_keep_all_promises(chunk: int) -> None:
    """The same holds for 20,000 others."""
    MANY.check(chunk, partial(report_on, TOPICS))


@pytest.mark.parametrize("seed", range(20))
def test_the_same_seed_does_the_same(seed: int) -> None:
    """A failure can be repeated: the seed decides all that anybody is told."""
    first, again = (TopicSimulation(TopicOptions.of(seed)).run() for _ in range(2))
    numbers = range(len(TopicOptions.of(seed).readers))
    assert [first.told(number) for number in numbers] == [again.told(number) for number in numbers]


def test_much_happens() -> None:
    """Subscribers see batches, miss and lose epochs, get things twice, hold publishers, and end in every way."""
    total = Counts()
    for seed in range(400):
        counts = TopicSimulation(TopicOptions.of(seed)).run().counts()
        total.batches += counts.batches
        total.filtered += counts.filtered
        total.dropped += counts.dropped
        total.duplicates += counts.duplicates
        total.held += counts.held
        total.ends.update(counts.ends)
    assert total.batches > 4000
    assert total.filtered > 500
    assert total.dropped > 100
    assert total.duplicates > 2000
    assert total.held > 300
    assert all(total.ends[state] > 20 for state in ("ended", "left", "lost", "cut off")), total.ends
