"""A topic with visible="snapshot": records that come out differently at each attempt are seen once, whoever dies."""

from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic

import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.ray.worker_killer import WorkerKiller

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
AT_ONCE = 3


def drawn(topic: str, folder: Path) -> tw.Dataflow:
    """Return a dataflow that publishes each number with another random one at each attempt."""
    flow = tw.Dataflow(topic)
    pairs = flow.input("numbers").rebalance().map(lambda number: (number, Random().random()))
    pairs.exchange(hash).publish(topic, log=tw.Log(folder / "log"), visible="snapshot")
    return flow


def records_of(epochs: range) -> list[list[int]]:
    return [[10 * epoch + number for number in range(8)] for epoch in epochs]


def send(job: tw.types.Job, end: int) -> None:
    """Send the epochs before an end that the job does not have."""
    numbers = job.input("numbers")
    for epoch, records in list(enumerate(records_of(range(end))))[numbers.position.batches :]:
        numbers.advance_to(epoch)
        numbers.send(records)
    numbers.advance_to(end)


def read(job: tw.types.Job, reader: tw.types.Subscription, epochs: range) -> list[list[int]]:
    """Return the numbers of these epochs; send them until they are seen, as the job may go back meanwhile."""
    found: list[list[int]] = []
    deadline_s = monotonic() + DEADLINE_S
    while len(found) < len(epochs) and monotonic() < deadline_s:
        with suppress(tw.JobRolledBack):
            send(job, epochs.stop)
        with suppress(TimeoutError):
            epoch = next(reader.epochs(timeout_s=0.5))
            found.append(sorted(number for number, _ in epoch.records))
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_each_epoch_is_seen_once(tmp_path: Path, seed: int) -> None:
    """A worker is killed between two epochs, and the job begins again from its snapshot; the log is never refused."""
    random = Random(seed)
    topic = f"visible/{seed}"
    flow = drawn(topic, tmp_path)
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.2)
    begun = 0
    with nothing_left():
        for _ in range(2):
            with (
                tw.run(flow, workers=2, snapshots=snapshots) as job,
                tw.subscribe(topic, durable=tw.Durable("reader"), start="earliest") as reader,
            ):
                for kills in (False, True, False):
                    end = begun + AT_ONCE
                    before = begun + random.randint(0, AT_ONCE - 1) if kills else begun
                    assert read(job, reader, range(begun, before)) == records_of(range(begun, before)), f"seed {seed}"
                    if kills:
                        WorkerKiller(random).strike()
                    assert read(job, reader, range(before, end)) == records_of(range(before, end)), f"seed {seed}"
                    begun = end
                job.stop()
