"""Snapshots, crashes and resumes of random dataflows, on several workers, under random schedules.

``TIDEWHEEL_SNAPSHOT_SIMULATIONS`` says how many and ``TIDEWHEEL_SNAPSHOT_SIMULATION_SEED`` from which seed on; without
it, other ones in every run, and a failure says which. ``python -m tests.simulation snapshots --runs 20000`` runs more.
"""

from functools import partial

import pytest

from tests.kit.simulation.simulated_runs import SimulatedRuns
from tests.simulation.campaign import report_on
from tests.simulation.scenario import SNAPSHOTS, Scenario
from tests.simulation.snapshots.snapshot_simulation import SnapshotSimulation

RUNS = SimulatedRuns.asked("SNAPSHOT_SIMULATION", 40, chunks=4)
MANY = SimulatedRuns.asked("LONG_SNAPSHOT_SIMULATION", 20_000, chunks=20)


@pytest.mark.parametrize("chunk", range(RUNS.chunks))
def test_random_dataflows_go_on_as_if_nothing_had_happened(chunk: int) -> None:
    """Outputs by epoch are those without a crash, no frontier passes what can still happen, and all comes to its end.

    Loops, nested scopes, tokens in all places, several handles, and as many workers, more or fewer after a crash.
    """
    RUNS.check(chunk, partial(report_on, SNAPSHOTS))


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(MANY.chunks))
def test_many_random_dataflows_go_on_as_if_nothing_had_happened(chunk: int) -> None:
    """The same holds for 20,000 of them."""
    MANY.check(chunk, partial(report_on, SNAPSHOTS))


@pytest.mark.parametrize("seed", range(4))
def test_the_same_seed_does_the_same(seed: int) -> None:
    """A failure can be repeated: the seed decides from which snapshots the job goes on, and what these have."""
    first, again = (SnapshotSimulation(Scenario.of(seed, SNAPSHOTS)).run() for _ in range(2))
    assert [one.had for one in again.restored] == [one.had for one in first.restored]
    assert again.outputs == first.outputs


@pytest.mark.long
def test_much_happens() -> None:
    """Jobs go on from several files, on other numbers of workers, mid-loop, with tokens, messages and open handles."""
    simulations = [SnapshotSimulation(Scenario.of(seed, SNAPSHOTS)).run() for seed in range(200)]
    restored = [one for simulation in simulations for one in simulation.restored]
    had = [had for one in restored for had in one.had]
    assert len(restored) > 40
    assert sum(one.files > len(one.workers) for one in restored) > 10
    assert sum(len(simulation.scenario.lives) > 2 for simulation in simulations) > 10
    assert sum(simulation.scenario.is_rescaled for simulation in simulations) > 20
    rescaled = [one for one in simulations if one.plan.declarations and one.scenario.is_rescaled]
    assert len(rescaled) > 20
    assert sum(one.refused for one in rescaled) < len(rescaled) / 4
    assert sum(bool(one.unread) for one in had) > 8
    assert sum(bool(one.tokens) for one in had) > 25
    assert sum(isinstance(time, tuple) for one in had for _, time in one.tokens) > 10
    assert sum(len(handles) > 1 for one in restored for handles in one.positions.values()) > 10
    assert sum(bool(simulation._cases) for simulation in simulations) > 10
