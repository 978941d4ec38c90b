"""Jobs with exchanges and loops that publish exactly once, crash and begin again; subscribers live through it.

``TIDEWHEEL_JOB_SIMULATIONS`` says how many and ``TIDEWHEEL_JOB_SIMULATION_SEED`` from which seed on; without it,
other ones in every run, and a failure says which. ``python -m tests.simulation jobs --runs 10000`` runs more of them.
"""

from functools import partial

import pytest

from tests.kit.simulation.simulated_runs import SimulatedRuns
from tests.simulation.campaign import report_on
from tests.simulation.jobs.job_simulation import JobSimulation
from tests.simulation.scenario import JOBS, Scenario

RUNS = SimulatedRuns.asked("JOB_SIMULATION", 20, chunks=2)
MANY = SimulatedRuns.asked("LONG_JOB_SIMULATION", 3000, chunks=10)


@pytest.mark.parametrize("chunk", range(RUNS.chunks))
def test_subscribers_see_every_epoch_once(chunk: int) -> None:
    """Each has the records of the undisturbed job, in one total order, and all have everything in the end.

    Workers, publishers, relays and readers crash. Half of the messages are lost, others are late or come twice.
    """
    RUNS.check(chunk, partial(report_on, JOBS))


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(MANY.chunks))
def test_subscribers_see_every_epoch_once_in_many_runs(chunk: int) -> None:
    """The same holds for 3,000 others in every run."""
    MANY.check(chunk, partial(report_on, JOBS))


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_does_the_same(seed: int) -> None:
    """A failure can be repeated."""
    first, again = (JobSimulation(Scenario.of(seed, JOBS)).run() for _ in range(2))
    assert [one.store.orders for one in again.world.subscribers] == [
        one.store.orders for one in first.world.subscribers
    ]
    assert again.network.now_s == first.network.now_s


@pytest.mark.long
def test_much_happens() -> None:
    """Jobs go back, from snapshots too; complete epochs come again; readers of all manners see rollbacks."""
    simulations = [JobSimulation(Scenario.of(seed, JOBS)).run() for seed in range(100)]
    jobs = [simulation.job for simulation in simulations]
    readers = [reader for simulation in simulations for reader in simulation.world.subscribers]
    assert sum(job.generations > 0 for job in jobs) > 30
    assert sum(bool(job.restored) for job in jobs) > 20
    assert sum(job.compared > 0 for job in jobs) > 5
    assert sum(len(job.expected) > 1 for job in jobs) > 50
    assert sum(reader.store.rollbacks > 0 for reader in readers) > 10
    assert sum(len(reader.store.orders) > 1 for reader in readers) > 30
    assert {reader.manner[:3] for reader in readers if reader.store.complete} == {
        (has_name, by_epoch, order)
        for has_name in (True, False)
        for by_epoch in (True, False)
        for order in ("publisher", "total")
    }
