"""Trees of pubends, relays and subends where everything may go wrong; in the end everybody has had everything once.

``TIDEWHEEL_DELIVERY_SIMULATIONS`` says how many and ``TIDEWHEEL_DELIVERY_SIMULATION_SEED`` from which seed on; without
it, other ones in every run, and a failure says which. ``python -m tests.simulation delivery --runs 10000`` runs more.
"""

from functools import partial

import pytest

from tests.kit.simulation.simulated_runs import SimulatedRuns
from tests.simulation.campaign import report_on
from tests.simulation.delivery.delivery_simulation import run_delivery
from tests.simulation.scenario import DELIVERY

RUNS = SimulatedRuns.asked("DELIVERY_SIMULATION", 200, chunks=5)
MANY = SimulatedRuns.asked("LONG_DELIVERY_SIMULATION", 3000, chunks=10)


@pytest.mark.parametrize("chunk", range(RUNS.chunks))
def test_everybody_has_everything_once(chunk: int) -> None:
    """In order, filtered, whatever was lost, came twice, late or out of order, was cut, crashed or torn; and logs end.

    What relays and subends keep stays within their bounds.
    """
    RUNS.check(chunk, partial(report_on, DELIVERY))


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(MANY.chunks))
def test_everybody_has_everything_once_in_many_runs(chunk: int) -> None:
    """The same holds for 3,000 others in every run."""
    MANY.check(chunk, partial(report_on, DELIVERY))


@pytest.mark.parametrize("seed", range(10))
def test_the_same_seed_does_the_same(seed: int) -> None:
    """A failure can be repeated."""
    first, again = (run_delivery(seed) for _ in range(2))
    assert [node.had for node in first.subends.values()] == [node.had for node in again.subends.values()]
    assert first.network.now_s == again.network.now_s


def test_much_happens() -> None:
    """Messages come through relays, in both orders, after nacks at every hop."""
    worlds = [run_delivery(seed) for seed in range(60)]
    had = [node for world in worlds for node in world.subends.values() if node.had]
    assert {node.order for node in had} == {"publisher", "total"}
    assert sum(len(node.had) for node in had) > 1000
    assert sum(node.nacks for world in worlds for node in world.pubends) > 500
    assert sum(relay.nacks for world in worlds for relay in world.relays.values()) > 500
