"""An exactly-once topic whose job goes on with more or fewer workers: subscribers see each epoch once, in order."""

import threading
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.ray.topics.test_recovered_topics import BATCHES, PAUSE_S, batch_of, kill_worker
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
EPOCHS = 40
LIVES = [(2, 3), (1, 4), (3, 1, 2), (4, 2, 3), (1, 2, 1)]
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 15))]


def expected() -> list[Any]:
    return [(epoch, sorted(n for b in range(BATCHES) for n in batch_of(epoch, b))) for epoch in range(EPOCHS)]


def feed(job: tw.types.Job, until: int, kills: dict[int, Any]) -> None:
    """Send batches up to one, again where the job goes back; call what is to be called at some of them, once."""
    while True:
        try:
            numbers = job.input("numbers")
            for sent in range(numbers.position.batches, until):
                kills.pop(sent, lambda: None)()
                numbers.advance_to(sent // BATCHES)
                numbers.send(batch_of(sent // BATCHES, sent % BATCHES))
                threading.Event().wait(PAUSE_S)
            if until == EPOCHS * BATCHES:
                numbers.close()
                job.wait(DEADLINE_S)
        except tw.JobRolledBack:
            continue
        return


class Reader:
    """A named subscription over all lives of the job."""

    def __init__(self, topic: str, name: str, **options: Any) -> None:
        self._topic, self._name, self._options = topic, name, options
        self.found: list[Any] = []

    def subscribe(self) -> tw.types.Subscription:
        return tw.subscribe(
            self._topic, durable=tw.Durable(self._name), start="earliest", timeout_s=DEADLINE_S, **self._options
        )

    def read(self, subscription: tw.types.Subscription, epochs: int) -> None:
        """Read up to so many epochs in all, and acknowledge all but the last."""
        seen = subscription.epochs(DEADLINE_S)
        while len(self.found) < epochs:
            epoch = next(seen)
            if self.found and epoch.time == self.found[-1][0]:
                self.found.pop()  # it was never acknowledged, so it comes again
            self.found.append((epoch.time, sorted(epoch.records)))


@pytest.mark.parametrize("seed", SEEDS)
def test_epochs_are_seen_once(tmp_path: Path, seed: int) -> None:
    """Each life goes on from a snapshot in the middle of an epoch, and a worker is killed in the last one.

    Readers are behind a relay, or the topic shows only what a snapshot has.
    """
    random = Random(seed)
    lives = LIVES[seed % len(LIVES)]
    topic = f"rescaled-{seed}"
    flow = tw.Dataflow(topic)
    numbers = flow.input("numbers").rebalance().map(abs).exchange(abs).rebalance()
    visible: Any = "snapshot" if seed % 2 else "epoch"
    numbers.publish(topic, log=tw.Log(tmp_path / "log"), visible=visible)
    readers = [Reader(topic, "reader"), Reader(topic, "total", order="total")]
    ends = [*sorted(random.sample(range(5 * BATCHES, 30 * BATCHES), len(lives) - 1)), EPOCHS * BATCHES]
    for workers, end in zip(lives, ends, strict=True):
        is_last = end == ends[-1]
        snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.3, restarts=4)
        with nothing_left(), ExitStack() as opened:
            job = opened.enter_context(tw.run(flow, workers=workers, snapshots=snapshots))
            assert isinstance(job, RayJob)
            if seed % 2 == 0:
                opened.enter_context(tw.relay(topic))
            subscriptions = [opened.enter_context(reader.subscribe()) for reader in readers]
            assert len(job.topic(topic).statistics()) == lives[0], "the partitions of the first life stay"
            kill = {end - 20: lambda job=job: kill_worker(job, random)} if is_last else {}
            feed(job, end, kill)
            for reader, subscription in zip(readers, subscriptions, strict=True):
                reader.read(subscription, EPOCHS if is_last else random.randint(1, end // BATCHES))
            if not is_last:
                job.stop()
    for reader in readers:
        assert reader.found == expected(), f"seed {seed}: {lives}"
