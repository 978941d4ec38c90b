"""The runs of simulated worlds, one seed after another, and the report on one that fails."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.kit.simulation.first_failure import how_to_repeat
from tests.kit.simulation.shrink import shrink
from tests.kit.simulation.violation import TooLargeError, ViolationError, broken_promise
from tests.laws.graphs import describe_graph
from tests.simulation.event import Event
from tests.simulation.scenario import WORLDS, Has, Scenario
from tests.simulation.tokens.token_simulation import TokenSimulation
from tests.simulation.worlds import run_world

_LOGGER = logging.getLogger(__name__)
_TRIALS = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """A simulation that broke a promise.

    Attributes:
        scenario: what was simulated.
        violation: the promise, and how it was broken.
        events: the events until then, where the world has a schedule of events.
    """

    scenario: Scenario
    violation: ViolationError
    events: tuple[Event, ...]

    def shrunk(self) -> "Failure":
        """Return a failure of the same kind with as few events as could be found."""
        best = self

        def fails(events: Sequence[Event]) -> bool:
            nonlocal best
            found = simulate(self.scenario, events)
            if found is None or found.violation.check != self.violation.check:
                return False
            best = found
            return True

        shrink(self.events, fails, _TRIALS)
        return best

    def report(self, original: "Failure") -> str:
        """Return what to print: the seed, the dataflow, and this schedule, to which that of ``original`` has shrunk."""
        lines = [str(self.violation), self.scenario.describe()]
        if self.events:
            graph = TokenSimulation(self.scenario).plan.graph()
            lines += [
                "the dataflow, with the depth of each port and the summaries from input to output:",
                *(f"  {line}" for line in describe_graph(graph).splitlines()),
                f"{len(self.events)} of {len(original.events)} events, after which the end is brought about:",
                *(f"  {event}" for event in self.events),
            ]
        worlds = [name for name, has in WORLDS.items() if has >= self.scenario.has]
        world = min(worlds, key=lambda name: len(WORLDS[name]))
        return "\n".join([*lines, how_to_repeat(f"tests.simulation {world}", self.scenario.seed)])


def simulate(scenario: Scenario, events: Iterable[Event] | None = None) -> Failure | None:
    """Run a scenario; return the failure if there is one.

    Args:
        scenario: what is simulated.
        events: the schedule, where the world has one; by default that of the seed.
    """
    happened: list[Event] = []
    try:
        violation = broken_promise(lambda: run_world(scenario, happened, events))
    except TooLargeError as error:
        _LOGGER.warning("seed %d is given up: %s", scenario.seed, error)
        return None
    return None if violation is None else Failure(scenario, violation, tuple(happened))


def report_on(has: Has, seeds: Iterable[int]) -> str | None:
    """Return the report on the first failure among the scenarios of some seeds, shrunk; None if all pass."""
    for seed in seeds:
        failure = simulate(Scenario.of(seed, has))
        if failure is not None:
            return failure.shrunk().report(failure)
    return None
