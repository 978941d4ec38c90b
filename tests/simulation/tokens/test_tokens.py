"""Whole clusters under random schedules: safety after every step, liveness at the end.

``TIDEWHEEL_TOKEN_SIMULATIONS`` says how many and ``TIDEWHEEL_TOKEN_SIMULATION_SEED`` from which seed on;
``python -m tests.simulation tokens --runs 100000`` runs more of them, on all cores.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

import pytest

from tests.kit.simulation.simulated_runs import SimulatedRuns
from tests.simulation.campaign import report_on
from tests.simulation.event import Event, Kind
from tests.simulation.scenario import TOKENS, Scenario
from tests.simulation.tokens.token_simulation import TokenSimulation

RUNS = SimulatedRuns.asked("TOKEN_SIMULATION", 140, chunks=4, seed=0)
MANY = SimulatedRuns.asked("LONG_TOKEN_SIMULATION", 2000, chunks=10)


@pytest.mark.parametrize("chunk", range(RUNS.chunks))
def test_random_dataflows_under_random_schedules(chunk: int, caplog: pytest.LogCaptureFixture) -> None:
    """No frontier passes what can still happen, no batch is split, and everything comes to its end.

    Both ways to spread progress, with and without hold-back; loops, nested scopes and epochs side by side.
    Next to none is given up because it grows without measure.
    """
    check(RUNS, chunk, caplog)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(MANY.chunks))
def test_many_random_dataflows_under_random_schedules(chunk: int, caplog: pytest.LogCaptureFixture) -> None:
    """The same holds for 2,000 others in every run."""
    check(MANY, chunk, caplog)


def check(runs: SimulatedRuns, chunk: int, caplog: pytest.LogCaptureFixture) -> None:
    runs.check(chunk, partial(report_on, TOKENS))
    assert sum("is given up" in record.message for record in caplog.records) <= runs.runs // runs.chunks // 50


@dataclass(slots=True)
class Trace:
    """What happened in one simulation, event by event."""

    simulation: TokenSimulation
    events: list[Event] = field(default_factory=list)
    views: list[Any] = field(default_factory=list)

    def follow(self, events: Iterable[Event]) -> "Trace":
        """Let events happen, and the end."""
        for event in events:
            self.events.append(event)
            self.simulation.apply(event)
            self.views.append([core.view() for core in self.simulation.cores])
        self.simulation.finish()
        return self


def traced(seed: int) -> Trace:
    """Run the simulation of a seed."""
    scenario = Scenario.of(seed, TOKENS)
    simulation = TokenSimulation(scenario)
    return Trace(simulation).follow(simulation.schedule())


@pytest.mark.parametrize("seed", range(8))
def test_the_same_events_do_the_same(seed: int) -> None:
    """A failure can be repeated: the events decide what every worker knows at every moment."""
    first = traced(seed)
    again = Trace(TokenSimulation(first.simulation.scenario)).follow(first.events)
    assert again.views == first.views
    assert again.simulation.world.leaks == first.simulation.world.leaks


def test_what_grows_without_measure_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """It breaks no promise: the loops of this dataflow double what comes to them."""
    assert report_on(TOKENS, [920003598]) is None
    assert "seed 920003598 is given up" in caplog.text


@pytest.mark.long
def test_much_happens() -> None:
    """Every kind of event, depth of scope and kind of operator occurs, and so do notifications and leaks."""
    traces = [traced(seed) for seed in range(60)]
    simulations = [trace.simulation for trace in traces]
    operators = [operator for simulation in simulations for operator in simulation.plan.operators]
    assert {event.kind for trace in traces for event in trace.events} == set(get_args(Kind))
    assert {nesting.depth for operator in operators for nesting in operator.shape.outputs} == {0, 1, 2, 3}
    assert Counter(len(operator.stages) > 1 for operator in operators)[True] > 20
    assert Counter(operator.notify for operator in operators)[True] > 60
    assert sum(simulation.world.notifications for simulation in simulations) > 50
    assert sum(len(leaks) for simulation in simulations for leaks in simulation.world.leaks) > 2
