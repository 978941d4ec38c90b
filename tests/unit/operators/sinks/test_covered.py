"""A topic with visible="snapshot" shows an epoch once a snapshot has it, and then for ever the same records."""

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw

SELDOM_S = 1000.0
DEADLINE_S = 30.0
EPOCHS = 5

_NUMBERS = count()


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"covered/{next(_NUMBERS)}"


def random_numbers(topic: str, random: Random, **options: Any) -> tw.Dataflow:
    """Return a dataflow that publishes each number with another random one at each attempt."""
    flow = tw.Dataflow("covered")
    drawn = flow.input("numbers").rebalance().map(lambda number: (number, random.random()))
    drawn.publish(topic, visible="snapshot", **options)
    return flow


def run(flow: tw.Dataflow, folder: Path, workers: int) -> tw.Job:
    return tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(folder, every_s=SELDOM_S))


def seen(subscription: tw.Subscription) -> dict[Any, list[Any]]:
    """Return the epochs that can be seen now."""
    found: dict[Any, list[Any]] = {}
    while True:
        try:
            epoch = next(subscription.epochs(timeout=0.0))
        except (TimeoutError, StopIteration):
            return found
        found[epoch.time] = sorted(epoch.records)


@pytest.mark.parametrize("seed", range(8))
def test_what_was_seen_never_changes(topic: str, tmp_path: Path, seed: int) -> None:
    """The job is cut at any round, and goes on with any number of workers; at last all epochs are seen."""
    random = Random(seed)
    flow = random_numbers(topic, random)
    found: dict[Any, list[Any]] = {}
    for life in range(6):
        with run(flow, tmp_path, random.randint(1, 3)) as job, tw.subscribe(topic) as subscription:
            numbers = job.input("numbers")
            for epoch in range(numbers.position.batches // 2, EPOCHS):
                numbers.advance_to(epoch)
                if numbers.position.batches % 2 == 0:
                    numbers.send([10 * epoch, 10 * epoch + 1])
                numbers.send([10 * epoch + 2, 10 * epoch + 3])
            if life == 5:
                numbers.close()
                job.wait(DEADLINE_S)
            else:
                for _ in range(random.randint(0, 25)):
                    job.run_round()  # type: ignore[attr-defined]
            for time, records in seen(subscription).items():
                assert found.setdefault(time, records) == records, f"seed {seed}"
            job.stop()
    drawn = {time: [number for number, _ in records] for time, records in found.items()}
    assert drawn == {epoch: [10 * epoch + number for number in range(4)] for epoch in range(EPOCHS)}, f"seed {seed}"


def test_without_snapshots_it_is_refused(topic: str) -> None:
    """The error names the topic, and says how to go on."""
    with pytest.raises(tw.JobError, match=rf"'{topic}': visible='snapshot' .* takes none. Call tw.run\(..., snapshots"):
        tw.run(random_numbers(topic, Random(1)), engine="local")


def test_wrong_arguments_are_refused(topic: str) -> None:
    """Visible is one of two texts, and ends of substreams do not go with it."""
    flow = tw.Dataflow("wrong")
    numbers = flow.input("numbers")
    with pytest.raises(tw.GraphError, match="visible is 'epoch' or 'snapshot', not 'always'"):
        numbers.publish(topic, visible="always")  # type: ignore[arg-type]
    with pytest.raises(tw.GraphError, match="visible='snapshot' does not go with ends=True"):
        numbers.substreams("each", key=lambda number: number).publish(topic, visible="snapshot", ends=True)
