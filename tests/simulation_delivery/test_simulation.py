"""Trees of pubends, relays and subends where everything may go wrong; in the end everybody has had everything once.

``TIDEWHEEL_DELIVERY_SIMULATIONS`` says how many (300 by default) and ``TIDEWHEEL_DELIVERY_SIMULATION_SEED`` from
which seed on; without it, other ones in every run, and a failure says which. ``python -m tests.simulation_delivery``
runs 10,000.
"""

import pytest

from tests.kit.simulation.fault import Fault, check_found
from tests.kit.simulation.simulated_runs import SimulatedRuns
from tests.simulation_delivery.__main__ import main
from tests.simulation_delivery.faults import FAULTS
from tests.simulation_delivery.scenario import Scenario, report_on, run, simulate

RUNS = SimulatedRuns.asked("DELIVERY_SIMULATION", 200, chunks=5)
MANY = SimulatedRuns.asked("LONG_DELIVERY_SIMULATION", 3000, chunks=10)
FIRST, TRIES = 600, 300
"""The seeds of the runs with faults: from here on, the rarest fault is caught within a few runs."""


@pytest.mark.parametrize("chunk", range(RUNS.chunks))
def test_everybody_has_everything_once(chunk: int) -> None:
    """In order, filtered, whatever was lost, came twice, late or out of order, was cut, crashed or torn; and logs end.

    What relays and subends keep stays within their bounds.
    """
    RUNS.check(chunk, report_on)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(MANY.chunks))
def test_everybody_has_everything_once_in_many_runs(chunk: int) -> None:
    """The same holds for 3,000 others in every run."""
    MANY.check(chunk, report_on)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_faults_are_noticed(fault: Fault[Scenario]) -> None:
    """With one thing wrong, one of few runs says so, and that run passes without it."""
    check_found(fault, map(Scenario, range(FIRST, FIRST + TRIES)), simulate, TRIES)


@pytest.mark.parametrize("seed", range(10))
def test_the_same_seed_does_the_same(seed: int) -> None:
    """A failure can be repeated."""
    first, again = (run(seed) for _ in range(2))
    assert [node.had for node in first.subends.values()] == [node.had for node in again.subends.values()]
    assert first.network.now_s == again.network.now_s


def test_much_happens() -> None:
    """Messages come through relays, in both orders, after nacks at every hop."""
    worlds = [run(seed) for seed in range(60)]
    had = [node for world in worlds for node in world.subends.values() if node.had]
    assert {node.order for node in had} == {"publisher", "total"}
    assert sum(len(node.had) for node in had) > 1000
    assert sum(node.nacks for world in worlds for node in world.pubends) > 500
    assert sum(relay.nacks for world in worlds for relay in world.relays.values()) > 500


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It says how many it ran, from which seed on."""
    assert main(["--runs", "3", "--seed", "7"]) == 0
    assert "3 simulations from seed 7 passed" in capsys.readouterr().out
