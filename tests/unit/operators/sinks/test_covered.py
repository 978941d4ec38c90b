"""`publish(..., visible="snapshot")`: an epoch is shown once a snapshot has it, and never with other records."""

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder

EPOCHS = 5

_NUMBERS = count()


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"covered/{next(_NUMBERS)}"


def snapshots(folder: Path) -> tw.Snapshots:
    """Return settings by which a job takes the snapshots that it needs, and no others."""
    return tw.Snapshots(folder / "snapshots", every_s=1e9)


def numbered(topic: str, numbers: "count[int]") -> tw.Dataflow:
    """Return a dataflow that publishes for each record another number, as one that reads a clock does."""
    flow = tw.Dataflow("test")
    flow.input("words").map(lambda word: (word, next(numbers))).publish(topic, visible="snapshot")
    return flow


def seen(subscription: tw.types.Subscription) -> dict[Any, list[Any]]:
    """Return the epochs that can be seen now."""
    found: dict[Any, list[Any]] = {}
    while True:
        try:
            epoch = next(subscription.epochs(timeout_s=0.0))
        except (TimeoutError, StopIteration):
            return found
        found[epoch.time] = sorted(epoch.records)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_epoch_is_shown_once_a_snapshot_has_it(tmp_path: Path, topic: str, workers: int) -> None:
    """The job takes a snapshot as soon as nothing else is left to do; nobody waits until one is due."""
    made = snapshots(tmp_path)
    with tw.run(numbered(topic, count()), workers=workers, engine="local", snapshots=made) as job:
        with tw.subscribe(topic) as subscription:
            words = job.input("words")
            for epoch in range(3):
                words.advance_to(epoch)
                words.send([f"a{epoch}"])
                words.send([f"b{epoch}"])
            words.advance_to(3)
            epochs = subscription.epochs(timeout_s=DEADLINE_S)
            for epoch in range(3):
                shown = next(epochs)
                assert (shown.time, sorted(word for word, _ in shown.records)) == (epoch, [f"a{epoch}", f"b{epoch}"])
                assert SnapshotFolder(tmp_path / "snapshots").stored_snapshots()
        job.stop()


@pytest.mark.parametrize("workers_after", [1, 2, 3])
def test_what_was_shown_is_shown_as_it_was(tmp_path: Path, topic: str, workers_after: int) -> None:
    """A run that goes on from the snapshot has the same records, and computes those of later epochs, on any workers."""
    made, numbers = snapshots(tmp_path), count()
    with tw.run(numbered(topic, numbers), workers=2, engine="local", snapshots=made) as job:
        with tw.subscribe(topic) as subscription:
            words = job.input("words")
            words.send(["a"])
            words.send(["b"])
            words.advance_to(1)
            shown = next(subscription.epochs(timeout_s=DEADLINE_S))
        job.stop()
    with tw.run(numbered(topic, numbers), workers=workers_after, engine="local", snapshots=made) as job:
        with tw.subscribe(topic) as subscription:
            words = job.input("words")
            assert words.position.batches == 2
            words.send(["c"])
            words.close()
            first, second = subscription.epochs(timeout_s=DEADLINE_S)
        job.wait(DEADLINE_S)
    assert (first.time, sorted(first.records)) == (0, sorted(shown.records))
    assert (second.time, second.records) == (1, [("c", 2)])


@pytest.mark.parametrize("seed", range(8))
def test_what_was_seen_never_changes(topic: str, tmp_path: Path, seed: int) -> None:
    """The job is cut at any round, and goes on with any number of workers; at last all epochs are seen."""
    random = Random(seed)
    flow = tw.Dataflow("test")
    drawn = flow.input("numbers").rebalance().map(lambda number: (number, random.random()))
    drawn.publish(topic, visible="snapshot")
    found: dict[Any, list[Any]] = {}
    for life in range(6):
        workers, made = random.randint(1, 3), snapshots(tmp_path)
        with (
            tw.run(flow, workers=workers, engine="local", snapshots=made) as job,
            tw.subscribe(topic) as subscription,
        ):
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
    shown = {time: [number for number, _ in records] for time, records in found.items()}
    assert shown == {epoch: [10 * epoch + number for number in range(4)] for epoch in range(EPOCHS)}, f"seed {seed}"


def test_records_of_substreams_are_shown_together(tmp_path: Path, topic: str) -> None:
    """Nothing is told of ends, so a stream that is divided is as good as another."""
    flow = tw.Dataflow("test")
    flow.input("words").substreams("letters", key=lambda word: word[0]).publish(topic, visible="snapshot")
    with tw.run(flow, engine="local", snapshots=snapshots(tmp_path)) as job:
        with tw.subscribe(topic) as subscription, job.input("words") as words:
            words.send(["a1", "b1", "a2"])
            words.close()
            assert [sorted(epoch.records) for epoch in subscription.epochs(timeout_s=DEADLINE_S)] == [
                ["a1", "a2", "b1"]
            ]
        job.wait(DEADLINE_S)


def test_a_job_without_snapshots_is_refused(topic: str) -> None:
    """Nothing of it could ever be shown."""
    with raises(tw.TidewheelError):
        tw.run(numbered(topic, count()), engine="local")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"visible": "soon"}, "visible is 'epoch' or 'snapshot', not 'soon'"),
        ({"visible": "snapshot", "ends": True}, "visible='snapshot' does not go with ends=True"),
    ],
)
def test_wrong_arguments_are_refused_at_once(topic: str, options: dict[str, Any], message: str) -> None:
    """When the dataflow is described."""
    words = tw.Dataflow("test").input("words").substreams("letters", key=lambda word: word[0])
    with pytest.raises(tw.GraphError, match=message):
        words.publish(topic, **options)
