"""A job that publishes goes back to its last snapshot when a worker dies: subscribers see epochs once, and whole."""

import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.leftovers import nothing_left
from tests.ray.topics.test_exactly_once_kills import kill_actor
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually
from tidewheel.runtime.engines import ray_workers
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
EPOCHS = 80
BATCHES = 3
PAUSE_S = 0.004
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))]
READER = "tests.ray.topics.epochs_program"


def batch_of(epoch: int, number: int) -> list[int]:
    return [epoch * 100 + number * 10 + n for n in range(5)]


def expected() -> list[Any]:
    return [[epoch, sorted(n for b in range(BATCHES) for n in batch_of(epoch, b))] for epoch in range(EPOCHS)]


def run(flow: tw.Dataflow, folder: Path, workers: int = 2, **settings: Any) -> RayJob:
    job = tw.run(flow, workers=workers, snapshots=tw.Snapshots(folder, **{"every_s": 0.3, "restarts": 4, **settings}))
    assert isinstance(job, RayJob)
    return job


def feed(job: tw.types.Job, kills: dict[int, Any]) -> int:
    """Send all epochs, again where the job goes back; call what is to be called at some of them, once."""
    rewound = 0
    while True:
        try:
            numbers = job.input("numbers")
            for sent in range(numbers.position.batches, EPOCHS * BATCHES):
                kills.pop(sent, lambda: None)()
                numbers.advance_to(sent // BATCHES)
                numbers.send(batch_of(sent // BATCHES, sent % BATCHES))
                threading.Event().wait(PAUSE_S)  # so that there are snapshots in between, in the middle of epochs
            numbers.close()
            job.wait(DEADLINE_S)
        except tw.JobRolledBack:
            rewound += 1
        else:
            return rewound


def kill_worker(job: RayJob, random: Random) -> None:
    """Kill a worker of this job; another job of the cluster has workers, too."""

    def kill_one() -> bool:
        with suppress(ProcessLookupError):  # it has died just now
            os.kill(random.choice(job.pids), signal.SIGKILL)
            return True
        return False

    assert eventually(kill_one, DEADLINE_S)


def moments(random: Random, count: int) -> list[int]:
    return random.sample(range(20 * BATCHES, EPOCHS * BATCHES), count)


def read(reader: DriverProcess) -> list[Any]:
    """Return the epochs that a reader has seen, up to the end of the topic."""
    lines: list[str] = []
    for line in reader.lines():
        if line == "end":
            return [json.loads(one) for one in lines]
        lines.append(line)
    raise AssertionError(f"the reader ended after {len(lines)} epochs: {reader.ended()[1]}")


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_epochs_of_a_best_effort_topic_are_shown_once(tmp_path: Path, ray_cluster: str, seed: int) -> None:
    """Which worker publishes a record depends on timing, so an epoch may not be made of what two lives have sent."""
    random = Random(seed)
    topic = f"recovered-{seed}"
    flow = tw.Dataflow("best effort")
    flow.input("numbers").rebalance().map(abs).exchange(abs).rebalance().publish(topic, wait_for=1)
    with nothing_left(), run(flow, tmp_path) as job, DriverProcess(ray_cluster, READER, topic, "") as reader:
        rewound = feed(job, dict.fromkeys(moments(random, 2), WorkerKiller(random).strike))
        job.stop()
        found = read(reader)
    assert rewound, f"seed {seed}: the job never went back"
    assert found == expected(), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_epochs_of_an_exactly_once_topic_are_shown_once(tmp_path: Path, ray_cluster: str, seed: int) -> None:
    """A worker is killed and then a publisher; who publishes a record depends on timing, as above."""
    random = Random(seed)
    topic = f"recovered-exactly-once-{seed}"
    flow = tw.Dataflow("exactly once")
    numbers = flow.input("numbers").rebalance().map(abs).exchange(abs).rebalance()
    numbers.publish(topic, log=tw.Log(tmp_path / "log"), wait_for=1)
    with (
        nothing_left(),
        run(flow, tmp_path / "snapshots") as job,
        DriverProcess(ray_cluster, READER, topic, "reader") as reader,
    ):
        publication: Any = job.topic(topic)
        worker, publisher = sorted(moments(random, 2))
        kills = {
            worker: WorkerKiller(random).strike,
            publisher: lambda: kill_actor(random.choice(publication._publishers)),
        }
        rewound = feed(job, kills)
        job.stop()
        found = read(reader)
    assert rewound, f"seed {seed}: the job never went back"
    assert found == expected(), f"seed {seed}"


@pytest.mark.long
def test_a_job_goes_on_with_an_exactly_once_topic(tmp_path: Path, ray_cluster: str) -> None:
    """Another program with the same folders publishes what comes after the snapshot, and the log has the rest."""
    topic = "resumed exactly once"
    flow = tw.Dataflow("resumed")
    flow.input("numbers").rebalance().map(abs).publish(topic, log=tw.Log(tmp_path / "log"))
    with nothing_left(), run(flow, tmp_path / "snapshots", every_s=1000) as job:
        numbers = job.input("numbers")
        for sent in range(EPOCHS * BATCHES // 2 + 1):
            numbers.advance_to(sent // BATCHES)
            numbers.send(batch_of(sent // BATCHES, sent % BATCHES))
            if sent == EPOCHS:
                job.snapshot()
        job.topic(topic).wait_until(EPOCHS // 2, DEADLINE_S)
        job.stop()
    with (
        nothing_left(),
        run(flow, tmp_path / "snapshots") as job,
        DriverProcess(ray_cluster, READER, topic, "reader") as reader,
    ):
        assert job.input("numbers").position.batches == EPOCHS + 1
        job.topic(topic).wait_for_subscribers(1, DEADLINE_S)
        assert not feed(job, {})
        job.stop()
        found = read(reader)
    assert found == expected()


@pytest.mark.long
def test_snapshots_from_before_another_run_are_refused(tmp_path: Path) -> None:
    """What that run has made void would be missing. Without the snapshots everything comes, once."""
    topic = "left behind"
    flow = tw.Dataflow("leaves behind")
    flow.input("numbers").publish(topic, log=tw.Log(tmp_path / "log"))

    def publish_a_part(job: tw.types.Job) -> None:
        """Publish some of epoch 0, up to where it is durable."""
        with tw.subscribe(topic, start="earliest") as reader:
            events = iter(reader)
            for number in range(3):
                job.input("numbers").send([number])
                while not (isinstance(event := next(events), tw.types.Batch) and event.records == [number]):
                    pass

    with nothing_left():
        with run(flow, tmp_path / "snapshots", every_s=1000) as first:
            publish_a_part(first)
            first.snapshot()
            first.stop()
        with tw.run(flow, workers=1) as job:
            publish_a_part(job)
            job.stop()
        with (  # noqa: PT012 - the job fails later
            pytest.raises(tw.JobError, match=r"later job has made void.* remove these snapshots and begin without one"),
            run(flow, tmp_path / "snapshots") as job,
        ):
            job.input("numbers").close()
            job.wait(DEADLINE_S)
        with tw.run(flow, workers=1) as job, tw.subscribe(topic, start="earliest") as reader:
            publish_a_part(job)
            job.input("numbers").close()
            assert [sorted(epoch.records) for epoch in reader.epochs(DEADLINE_S)] == [[0, 1, 2]]
            job.wait(DEADLINE_S)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_begins_again_with_an_exactly_once_topic(tmp_path: Path, seed: int) -> None:
    """Without snapshots it sends everything again, from other workers. What was complete is known by its epoch."""
    topic = f"begun again {seed}"
    flow = tw.Dataflow("begins again")
    numbers = flow.input("numbers").rebalance().exchange(lambda number: number // 7).count().rebalance()
    numbers.publish(topic, log=tw.Log(tmp_path))
    counted = [[epoch, [[number, 1] for number in records]] for epoch, records in expected()]
    found: list[Any] = []
    with nothing_left():
        for stop in [*sorted(moments(Random(seed), 2)), EPOCHS * BATCHES]:
            with (
                tw.run(flow, workers=2) as job,
                tw.subscribe(topic, durable=tw.Durable("reader"), start="earliest") as reader,
            ):
                handle = job.input("numbers")
                for sent in range(stop):
                    handle.advance_to(sent // BATCHES)
                    handle.send(batch_of(sent // BATCHES, sent % BATCHES))
                complete = (stop - 1) // BATCHES  # the epoch that the input is at is open
                if stop == EPOCHS * BATCHES:
                    handle.close()
                    complete = EPOCHS
                epochs = reader.epochs(DEADLINE_S)
                while not found or found[-1][0] < complete - 1:
                    epoch = next(epochs)
                    found.append([epoch.time, sorted(map(list, epoch.records))])
                job.stop()
    assert found == counted, f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_best_effort_publisher_that_dies_is_replaced(tmp_path: Path, ray_cluster: str, seed: int) -> None:
    """Publishers are killed, and a worker between them: a reader elsewhere has each epoch once, and whole."""
    random = Random(seed)
    topic = f"replaced-{seed}"
    flow = tw.Dataflow("replaced")
    flow.input("numbers").rebalance().map(abs).exchange(abs).rebalance().publish(topic, wait_for=1)
    with nothing_left(), run(flow, tmp_path) as job, DriverProcess(ray_cluster, READER, topic, "") as reader:
        publication: Any = job.topic(topic)

        recovery: Any = job._recovery

        def kill_publisher() -> None:
            """Kill one, and wait until the job has gone back: no other partition may end meanwhile."""
            assert eventually(lambda: not recovery._is_under_way, DEADLINE_S)  # or that would make up for this one
            before_s = recovery._failed_at
            kill_actor(random.choice(publication._publishers))
            assert eventually(lambda: recovery._failed_at > before_s and not recovery._is_under_way, DEADLINE_S)

        first, second, third = sorted(random.sample(range(20 * BATCHES, 60 * BATCHES), 3))
        kills = {first: kill_publisher, second: WorkerKiller(random).strike, third: kill_publisher}
        rewound = feed(job, kills)
        job.stop()
        found = read(reader)
    assert rewound, f"seed {seed}: the job never went back"
    assert found == expected(), f"seed {seed}"


@pytest.mark.long
def test_a_subscriber_may_come_back_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing while the publisher dies and the job goes on; readers of events learn what is void.

    The driver looks at publishers only when one has died, and learns then that the awaited subscriber had come.
    """
    monkeypatch.setattr(ray_workers, "_CHECK_S", 300.0)
    topic = "read late"
    flow = tw.Dataflow(topic)
    flow.input("numbers").publish(topic, wait_for=1)
    with (
        nothing_left(),
        run(flow, tmp_path, workers=1, every_s=1000) as job,
        tw.subscribe(topic) as late,
        tw.subscribe(topic) as events,
    ):
        numbers = job.input("numbers")
        numbers.send([1])
        job.snapshot()
        numbers.send([2])
        publication: Any = job.topic(topic)
        assert eventually(lambda: sum(one["records"] for one in publication.statistics()) == 2, DEADLINE_S)
        kill_actor(publication._publishers[0])
        assert eventually(lambda: numbers.position.batches == 1, DEADLINE_S)
        with pytest.raises(tw.JobRolledBack):
            numbers.send([2])
        numbers.send([2])
        numbers.close()
        job.wait(DEADLINE_S)
        assert [sorted(epoch.records) for epoch in late.epochs(DEADLINE_S)] == [[1, 2]]
        batches: list[tw.types.Batch] = []
        for event in events:
            match event:
                case tw.types.RolledBack():
                    batches = [batch for batch in batches if not event.voids(batch)]
                case tw.types.Batch():
                    batches.append(event)
    assert sorted(record for batch in batches for record in batch.records) == [1, 2]


def test_the_death_of_a_best_effort_publisher_ends_a_job_that_may_not_go_back(tmp_path: Path) -> None:
    """The error names topic and partition."""
    flow = tw.Dataflow("lost publisher")
    flow.input("numbers").publish("lost publisher")
    lost = pytest.raises(tw.JobError, match=r"topic 'lost publisher', partition 0.* is dead")
    with nothing_left(), lost, run(flow, tmp_path, workers=1, restarts=0) as job:
        job.input("numbers").send([1])
        job.snapshot()
        publication: Any = job.topic("lost publisher")
        kill_actor(publication._publishers[0])
        assert eventually(lambda: job._life.error is not None, DEADLINE_S)
        job.input("numbers").send([2])


@pytest.mark.parametrize("delivery", [pytest.param("best_effort", marks=pytest.mark.long), "exactly_once"])
def test_a_dataflow_that_reads_the_topic_goes_on(
    tmp_path: Path, delivery: Literal["best_effort", "exactly_once"]
) -> None:
    """It receives each epoch once it is complete, and nothing that becomes void as a worker of the other job dies."""
    random = Random(delivery)
    topic = f"chained, {delivery}"
    options: dict[str, Any] = {"log": tw.Log(tmp_path / "log")} if delivery == "exactly_once" else {}
    flow = tw.Dataflow("upstream")
    numbers = flow.input("numbers").rebalance().map(abs).exchange(abs).rebalance()
    numbers.publish(topic, wait_for=1, **options)
    reading = tw.Dataflow("downstream")
    reading.from_topic(topic).rebalance().map(str).capture("texts")
    with (
        nothing_left(),
        run(flow, tmp_path / "upstream") as job,
        tw.run(reading, workers=2, snapshots=tw.Snapshots(tmp_path / "downstream")) as downstream,
    ):
        rewound = feed(job, {moment: lambda: kill_worker(job, random) for moment in moments(random, 2)})
        downstream.wait(DEADLINE_S)
        found: dict[int, list[str]] = {}
        for captured in downstream.captured("texts"):
            found.setdefault(captured.time, []).extend(captured.batch)
    assert rewound, "the job never went back"
    assert {time: sorted(texts) for time, texts in found.items()} == {
        time: sorted(map(str, records)) for time, records in expected()
    }


def test_readers_of_events_are_told_what_is_void(tmp_path: Path) -> None:
    """Without the void batches they have each record once."""
    flow = tw.Dataflow("events")
    flow.input("numbers").publish("events of a recovered job", wait_for=1)
    batches: list[tw.types.Batch] = []
    with nothing_left(), run(flow, tmp_path, every_s=1000) as job, tw.subscribe("events of a recovered job") as topic:
        numbers = job.input("numbers")
        numbers.send([1])
        job.snapshot()
        numbers.send([2])
        while len(batches) < 2:
            batches += [event for event in topic.poll(DEADLINE_S) if isinstance(event, tw.types.Batch)]
        os.kill(job.pids[0], signal.SIGKILL)
        assert eventually(lambda: numbers.position.batches == 1, DEADLINE_S)
        with pytest.raises(tw.JobRolledBack):
            numbers.send([2])
        numbers.send([2])
        numbers.close()
        returns = []
        for event in topic:
            match event:
                case tw.types.RolledBack():
                    returns.append(event)
                    batches = [batch for batch in batches if not event.voids(batch)]
                case tw.types.Batch():
                    batches.append(event)
    assert sorted(event.partition for event in returns) == [0, 1]
    assert sorted(record for batch in batches for record in batch.records) == [1, 2]
