"""The publisher tells its subscribers what the former one told them, in simulated topics."""

from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest

from tests.kit.simulation.simulated_runs import SimulatedRuns
from tests.simulation.scenario import TOPICS, Scenario
from tests.simulation.topics.former import compare, main, report_on
from tidewheel.pubsub.protocol import dropping_queue
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue

RUNS = SimulatedRuns.asked("FORMER_TOPIC", 400, chunks=4)
MANY = SimulatedRuns.asked("LONG_FORMER_TOPIC", 100_000, chunks=100, seed=0)


@pytest.mark.parametrize("chunk", range(RUNS.chunks))
def test_subscribers_are_told_what_the_former_publisher_told(chunk: int) -> None:
    """The same batches, frontiers, dropped epochs and ends, in the same order."""
    RUNS.check(chunk, report_on)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(MANY.chunks))
def test_many_subscribers_are_told_what_the_former_publisher_told(chunk: int) -> None:
    """The same for 100,000 seeds."""
    MANY.check(chunk, report_on)


def test_the_command_says_how_many_were_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0."""
    assert main(["--runs", "10", "--seed", "7", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("10 simulations of topics from seed 7 passed in ")


@pytest.mark.parametrize(
    "difference",
    [
        patch.object(dropping_queue, "_SPARE", 4),
        patch.object(OutgoingQueue, "_has_room", lambda queue, size: queue.bytes + size < queue._capacity_bytes - 50),
    ],
    ids=["more epochs give way", "a queue is full earlier"],
)
def test_a_difference_that_breaks_no_promise_is_found(difference: AbstractContextManager[object]) -> None:
    """The comparison compares."""
    with difference:
        found = next(
            (one for one in map(compare, (Scenario.of(seed, TOPICS) for seed in range(400))) if one is not None), None
        )
    assert found is not None
    assert found.check == "former"
