"""The runs of simulations, one seed after another, and the report on one that fails."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.kit.simulation.first_failure import how_to_repeat
from tests.kit.simulation.shrink import shrink
from tests.kit.simulation.violation import TooLargeError, ViolationError, broken_promise
from tests.laws.graphs import describe_graph
from tests.simulation.event import Event
from tests.simulation.random_dataflow import random_dataflow
from tests.simulation.random_schedule import RandomSchedule
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import Simulation
from tests.simulation.world import World
from tidewheel.runtime.description.dataflow_description import description_of

_LOGGER = logging.getLogger(__name__)
_TRIALS = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """A simulation that broke a promise.

    Attributes:
        scenario: what was simulated.
        violation: the promise, and how it was broken.
        events: the events until then.
    """

    scenario: Scenario
    violation: ViolationError
    events: tuple[Event, ...]

    def shrunk(self, *, books: bool = True) -> "Failure":
        """Return a failure of the same kind with as few events as could be found."""
        best = self

        def fails(events: Sequence[Event]) -> bool:
            nonlocal best
            found = replay(self.scenario, events, books=books)
            if found is None or found.violation.check != self.violation.check:
                return False
            best = found
            return True

        shrink(self.events, fails, _TRIALS)
        return best

    def report(self, original: "Failure") -> str:
        """Return what to print: the seed, the dataflow, and this schedule, to which that of ``original`` has shrunk."""
        flow = random_dataflow(self.scenario.random("dataflow"), World(self.scenario))
        lines = [
            str(self.violation),
            self.scenario.describe(),
            "the dataflow, with the depth of each port and the summaries from input to output:",
            *(f"  {line}" for line in describe_graph(description_of(flow).plan().graph()).splitlines()),
            f"{len(self.events)} of {len(original.events)} events, after which the end is brought about:",
            *(f"  {event}" for event in self.events),
            how_to_repeat("tests.simulation", self.scenario.seed),
        ]
        return "\n".join(lines)


def simulate(scenario: Scenario, *, books: bool = True) -> Failure | None:
    """Run a scenario under the schedule of its seed; return the failure if there is one."""

    def schedule(simulation: Simulation) -> Iterator[Event]:
        return RandomSchedule(simulation, scenario.random("schedule")).events()

    return _run(scenario, schedule, books=books)


def replay(scenario: Scenario, events: Iterable[Event], *, books: bool = True) -> Failure | None:
    """Run a scenario under a given schedule; return the failure if there is one."""
    return _run(scenario, lambda _: events, books=books)


def report_on(seeds: Iterable[int]) -> str | None:
    """Return the report on the first failure among the scenarios of some seeds, shrunk; None if all pass."""
    for seed in seeds:
        failure = simulate(Scenario.of(seed))
        if failure is not None:
            return failure.shrunk().report(failure)
    return None


def _run(scenario: Scenario, schedule: Callable[[Simulation], Iterable[Event]], *, books: bool) -> Failure | None:
    events: list[Event] = []

    def run() -> None:
        simulation = Simulation(scenario, books=books)
        for event in schedule(simulation):
            events.append(event)
            simulation.apply(event)
        simulation.finish()

    try:
        violation = broken_promise(run)
    except TooLargeError as error:
        _LOGGER.warning("seed %d is given up: %s", scenario.seed, error)
        return None
    return None if violation is None else Failure(scenario, violation, tuple(events))
