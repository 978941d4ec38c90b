"""A job that begins again sends complete epochs again: they are known by their content, in any order and batches."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
EPOCHS = 6

Build = Callable[[tw.Stream[int]], tw.Stream[object]]


def looped(numbers: tw.Stream[int]) -> tw.Stream[int]:
    return numbers.exchange(abs).iterate(
        lambda each: (
            each.map(lambda number: number - 1).filter(lambda number: number > 0).exchange(abs),
            each.filter(lambda number: number <= 1),
        )
    )


def built(topic: str, folder: Path) -> tw.Dataflow:
    """Return a dataflow in which every operator between workers is before the topic."""
    flow = tw.Dataflow(topic)
    numbers = looped(flow.input("numbers").rebalance()).concat(flow.input("others").exchange(abs).distinct())
    counted = numbers.count().accumulate(
        lambda pair: pair[0] % 5, start=lambda: 0, add=lambda total, pair: total + pair[1]
    )
    counted.rebalance().publish(topic, log=tw.Log(folder))
    return flow


def send(job: tw.types.Job, epochs: int, random: Random, changed: int | None = None) -> None:
    """Send the records of each epoch in any order and batches; one of them is another one where that is wished."""
    for epoch in range(epochs):
        for name in ("numbers", "others"):
            handle = job.input(name)
            handle.advance_to(epoch)
            records = [epoch * 7 + n for n in range(12)]
            records[0] += 1000 if epoch == changed else 0
            random.shuffle(records)
            cut = random.randint(0, len(records))
            handle.send(records[:cut])
            handle.send(records[cut:])
    for name in ("numbers", "others"):
        job.input(name).advance_to(epochs)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_the_same_content_is_published_once(tmp_path: Path, seed: int) -> None:
    """Exchanges, a loop, counts and sums deal records out by chance, to other workers, and no life is refused."""
    random = Random(seed)
    flow = built(f"known again {seed}", tmp_path)
    found: dict[int, int] = {}
    with nothing_left():
        for epochs in (random.randint(1, EPOCHS - 1), EPOCHS):
            with (
                tw.run(flow, workers=random.randint(1, 3)) as job,
                tw.subscribe(f"known again {seed}", durable=tw.Durable("reader"), start="earliest") as reader,
            ):
                send(job, epochs, random)
                job.topic(f"known again {seed}").wait_until(epochs, DEADLINE_S)
                seen = reader.epochs(DEADLINE_S)
                while len(found) < epochs:
                    epoch = next(seen)
                    assert epoch.time not in found, f"seed {seed}"
                    found[epoch.time] = len(epoch.records)
                job.stop()
    assert list(found) == list(range(EPOCHS)), f"seed {seed}"


@pytest.mark.long
def test_other_content_is_an_error(tmp_path: Path) -> None:
    """It names the topic, the epoch, a partition and a record, and readers are told, too."""
    flow = tw.Dataflow("other content")
    texts = flow.input("numbers").rebalance().map(lambda number: f"record {number}").exchange(len).rebalance()
    texts.publish("other content", log=tw.Log(tmp_path))

    def live(base: int, workers: int = 2) -> tw.types.Job:
        job = tw.run(flow, workers=workers)
        numbers = job.input("numbers")
        for epoch in range(EPOCHS):
            numbers.send([base if epoch == number == 3 else 10 * epoch + number for number in range(5)])
            numbers.advance_to(epoch + 1)
        return job

    with nothing_left():
        with live(33) as job:
            job.topic("other content").wait_until(EPOCHS, DEADLINE_S)
            job.stop()
        expected = (
            r"topic 'other content', partition [01]: epoch 3 is complete and came again with other content: "
            r"in the log there is 'record 33', which has not come"
        )
        with pytest.raises(tw.JobError, match=expected), live(99) as job:  # noqa: PT012 - the job fails later
            assert eventually(lambda: job._life.error is not None, DEADLINE_S)
            job.wait(DEADLINE_S)
        with pytest.raises(tw.JobError, match=expected), live(99, 1) as job:  # noqa: PT012 - the job fails later
            job.input("numbers").close()
            job.wait(DEADLINE_S)  # the end of a job waits for the comparison
