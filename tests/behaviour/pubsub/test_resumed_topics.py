"""A best-effort topic of a job that goes on from a snapshot: subscribers see whole epochs, or nothing of them."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tidewheel.pubsub.publishers.sent_events import SentEvents

DEADLINE_S = 20.0
FOLLOWING = {1: [3], 2: [1, 2, 3]}


def published(topic: str) -> tw.Dataflow:
    flow = tw.Dataflow("resumed")
    flow.input("numbers").exchange(abs).publish(topic)
    return flow


def go_on(topic: str, folder: Path, workers: int) -> list[tuple[int, list[int]]]:
    """Send the rest of an epoch and another one; return what a subscriber sees that is there before all."""
    flow = published(topic)
    with (
        tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(folder), paused=True) as job,
        tw.subscribe(topic) as epochs,
    ):
        job.start()
        numbers = job.input("numbers")
        assert numbers.position.batches == 2
        for time, records in FOLLOWING.items():
            numbers.advance_to(time)
            numbers.send(records)
        numbers.close()
        return [(epoch.time, sorted(epoch.records)) for epoch in epochs.epochs(timeout_s=20)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_rest_of_an_epoch_is_not_shown(tmp_path: Path, workers: int) -> None:
    """Epoch 1 has begun in the snapshot, and no publisher has its first part, with any number of workers."""
    with tw.run(published("rest"), workers=2, engine="local", snapshots=tw.Snapshots(tmp_path)) as job:
        numbers = job.input("numbers")
        numbers.send([1, 2, 3, 4])
        numbers.advance_to(1)
        numbers.send([1, 2])
        with tw.subscribe("rest") as events:
            left = 2
            while left:  # until the epoch is under way
                batches = [event for event in events.poll(20) if isinstance(event, tw.types.Batch)]
                left -= sum(len(batch) for batch in batches if batch.time == 1)
        job.stop(snapshot=True)
    assert go_on("rest", tmp_path, workers) == [(2, [1, 2, 3])]


def test_an_epoch_that_had_not_begun_is_shown(tmp_path: Path) -> None:
    """What waits in the dataflow is in the snapshot, and is published by the next job, whole."""
    flow = tw.Dataflow("resumed")
    flow.input("numbers").sort().publish("not begun")
    with tw.run(flow, workers=2, engine="local", snapshots=tw.Snapshots(tmp_path)) as job:
        job.input("numbers").send([3, 1])
        job.stop(snapshot=True)
    with (
        tw.run(flow, workers=2, engine="local", snapshots=tw.Snapshots(tmp_path), paused=True) as job,
        tw.subscribe("not begun") as epochs,
    ):
        job.start()
        job.input("numbers").send([2])
        job.input("numbers").close()
        assert [(epoch.time, sorted(epoch.records)) for epoch in epochs.epochs(timeout_s=20)] == [(0, [1, 2, 3])]


def test_a_topic_that_had_ended_ends_at_once(tmp_path: Path) -> None:
    """The end is in the snapshot, too."""
    for _ in range(2):
        flow = published("ended")
        with tw.run(flow, workers=2, engine="local", snapshots=tw.Snapshots(tmp_path)) as job:
            with tw.subscribe("ended") as epochs:
                job.input("numbers").close()
                job.wait(20)
                assert list(epochs.epochs(timeout_s=20)) == []
            job.stop(snapshot=True)


@pytest.mark.parametrize("wait_for", [0, 1])
@pytest.mark.parametrize("is_closed", [False, True])
def test_what_a_snapshot_has_of_unconfirmed_events_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_closed: bool, wait_for: int
) -> None:
    """As of a job on Ray, whose publishers confirm late: subscribers that are there before all receive it."""
    flow = tw.Dataflow("resumed")
    flow.input("numbers").publish("unconfirmed", wait_for=wait_for)
    with monkeypatch.context() as patched:
        patched.setattr(SentEvents, "durable", lambda *_: None)
        with tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path)) as job, tw.subscribe("unconfirmed") as old:
            numbers = job.input("numbers")
            numbers.send([1])
            numbers.advance_to(1)
            if is_closed:
                numbers.close()
            assert [epoch.time for epoch in islice(old.epochs(timeout_s=20), 1)] == [0]
            job.stop(snapshot=True)
    with (
        tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path), paused=True) as job,
        tw.subscribe("unconfirmed") as epochs,
    ):
        job.start()
        job.input("numbers").close()
        assert [(epoch.time, epoch.records) for epoch in epochs.epochs(timeout_s=20)] == [(0, [1])]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("partition", ["worker", "merged"])
def test_ends_are_published_by_another_number_of_workers(tmp_path: Path, workers: int, partition: Any) -> None:
    """Each once, by whoever owns the substream now; those that were published before do not come again."""
    keys = [f"key {number}" for number in range(12)]

    def described() -> tw.Dataflow:
        flow = tw.Dataflow("ends")
        divided = flow.input("letters").substreams("letters", key=str)
        divided.publish("ends by others", ends=True, partition=partition).probe("published")
        return flow

    with tw.run(described(), workers=2, engine="local", snapshots=tw.Snapshots(tmp_path)) as job:
        letters = job.input("letters")
        letters.send(keys)
        letters.end_substream(*keys[:3])
        letters.advance_to(1)
        job.probe("published").wait_until(1, DEADLINE_S)
        job.stop(snapshot=True)
    with (
        tw.run(described(), workers=workers, engine="local", snapshots=tw.Snapshots(tmp_path), paused=True) as job,
        tw.subscribe("ends by others") as topic,
    ):
        job.start()
        letters = job.input("letters")
        letters.send(keys[3:])
        letters.end_substream(*keys[3:6])
        letters.advance_to(2)
        letters.close()
        epochs = list(topic.epochs())
        job.wait(DEADLINE_S)
    ended = sorted(key for epoch in epochs for key in epoch.ended)
    assert set(ended) >= set(keys[3:])
    assert len(ended) == len(set(ended))
