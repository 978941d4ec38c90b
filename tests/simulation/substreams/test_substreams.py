"""Substreams in random dataflows with loops, on several workers, under random schedules.

``TIDEWHEEL_SUBSTREAM_SIMULATIONS`` says how many and ``TIDEWHEEL_SUBSTREAM_SIMULATION_SEED`` from which seed on;
without it, other ones in every run, and a failure says which. ``python -m tests.simulation substreams --runs 10000``
runs more of them.
"""

from collections import Counter
from functools import partial

import pytest

from tests.kit.simulation.simulated_runs import SimulatedRuns
from tests.simulation.campaign import report_on
from tests.simulation.scenario import SUBSTREAMS, Scenario
from tests.simulation.substreams.substream_simulation import SubstreamSimulation

RUNS = SimulatedRuns.asked("SUBSTREAM_SIMULATION", 60, chunks=4)
MANY = SimulatedRuns.asked("LONG_SUBSTREAM_SIMULATION", 1000, chunks=10)


@pytest.mark.parametrize("chunk", range(RUNS.chunks))
def test_random_dataflows_keep_all_promises(chunk: int) -> None:
    """No end is told too early, each is told once, in order where that is asked for, and nothing is left.

    Shared and owned keys that are used again, tokens that are kept, loops, messages left unread, slow links.
    """
    RUNS.check(chunk, partial(report_on, SUBSTREAMS))


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(MANY.chunks))
def test_many_random_dataflows_keep_all_promises(chunk: int) -> None:
    """The same holds for 1,000 others in every run."""
    MANY.check(chunk, partial(report_on, SUBSTREAMS))


@pytest.mark.parametrize("seed", range(4))
def test_the_same_seed_does_the_same(seed: int) -> None:
    """A failure can be repeated: the seed decides all that anybody is told."""
    first, again = (SubstreamSimulation(Scenario.of(seed, SUBSTREAMS)).run() for _ in range(2))
    assert first.world.told == again.world.told
    assert first.world.received == again.world.received


def test_much_happens() -> None:
    """Operators receive, are told of many lives of each key in nested loops, and records are refused that have to be.

    Both kinds of declarations and bounds occur, and envelopes are held back until an end was heard of.
    """
    simulations = [SubstreamSimulation(Scenario.of(seed, SUBSTREAMS)).run() for seed in range(40)]
    shared = Counter(kind for simulation in simulations for kind in simulation.world.is_shared)
    operators = [operator for simulation in simulations for operator in simulation.plan.operators]
    ends = [life for simulation in simulations for told in simulation.world.told.values() for life in told]
    assert min(shared[True], shared[False]) > 10
    assert sum(len(simulation.world._firm) for simulation in simulations) > 20
    assert {nesting.depth for operator in operators for nesting in operator.shape.outputs} == {0, 1, 2, 3}
    assert sum(operator.ends is not None and operator.ends.ordered for operator in operators) > 20
    assert sum(simulation.world.received for simulation in simulations) > 4000
    assert len(ends) > 2000
    assert sum(life.number > 1 for life in ends) > 1000
    assert sum(simulation.was_refused for simulation in simulations) > 1
