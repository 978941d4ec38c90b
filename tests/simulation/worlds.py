"""The world that has the parts of a scenario: what they are made of, and what runs them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.kit.simulation.violation import ViolationError
from tests.simulation.delivery.delivery_simulation import run_delivery
from tests.simulation.event import Event
from tests.simulation.jobs.job_simulation import JobSimulation
from tests.simulation.scenario import Scenario
from tests.simulation.snapshots.snapshot_simulation import SnapshotSimulation
from tests.simulation.substreams.substream_simulation import SubstreamSimulation
from tests.simulation.tokens.token_simulation import TokenSimulation
from tests.simulation.topics.topic_simulation import run_topic
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError


def run_world(scenario: Scenario, happened: list[Event], events: Iterable[Event] | None = None) -> None:
    """Run a world to its end; raise ViolationError where a promise is broken.

    Args:
        scenario: what the world has.
        happened: receives the events, where the world has operators that may do anything.
        events: what happens in such a world; by default the schedule of the seed.
    """
    if scenario.topic is not None:
        run_topic(scenario.topic)
    elif "log" in scenario.has:
        with _errors_refused():
            if "workers" in scenario.has:
                JobSimulation(scenario).run()
            else:
                run_delivery(scenario.seed)
    elif "snapshots" in scenario.has:
        SnapshotSimulation(scenario).run()
    elif "substreams" in scenario.has:
        SubstreamSimulation(scenario).run()
    else:
        simulation = TokenSimulation(scenario)
        for event in simulation.schedule() if events is None else events:
            happened.append(event)
            simulation.apply(event)
        simulation.finish()


@contextmanager
def _errors_refused() -> Iterator[None]:
    """Have the errors of a topic with a log be the violation named ``refused``: nothing gives a reason for them."""
    try:
        yield
    except (ProtocolError, DeliveryError, AssertionError) as error:
        if isinstance(error, ViolationError):
            raise
        raise ViolationError("refused", f"{type(error).__name__}: {error}") from error
