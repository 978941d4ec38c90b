"""Topics with history of jobs in this process: dashboards that come late, beside a fold in plain Python."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.pubsub.errors import DeliveryError

SOON_S = 10.0
SEEDS = range(6)


def collection(topic: str, columns: list[str] | Literal[False] = False, **options: Any) -> tw.Dataflow:
    """A job that publishes a collection of pairs."""
    flow = tw.Dataflow(f"publishes {topic}")
    changes = flow.input("changes").as_collection(diff=True).changes(columns)
    changes.publish(topic, history=True, **options).probe("done")
    return flow


def rows(table: Any) -> dict[tuple[Any, Any], int]:
    """Return the counts of the records in a table, of which each has one row."""
    found = [((row["key"], row["value"]), row["diff"]) for row in table.to_pylist()]
    assert len(dict(found)) == len(found)
    return dict(found)


def plain(counts: Counter[Any]) -> dict[Any, int]:
    return {record: count for record, count in counts.items() if count}


@pytest.mark.parametrize("columns", [False, ["key", "value"]], ids=["records", "tables"])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_table_is_the_sum_of_all_changes(seed: int, columns: list[str] | Literal[False], request: Any) -> None:
    """Subscribers come at any moment, also in the middle of an epoch, and read seldom or often; one comes after all."""
    random = Random(seed)
    counts: Counter[Any] = Counter()
    states: list[dict[Any, int]] = []
    topic = str(request.node.name)
    readers: list[tw.types.Subscription] = []
    partition: Any = random.choice(["worker", "merged"])
    flow = collection(topic, columns, partition=partition)
    with tw.run(flow, workers=random.choice([1, 2, 3]), engine="local") as job:
        changes = job.input("changes")
        for epoch in range(random.randint(1, 12)):
            for _ in range(random.randint(0, 3)):
                batch = [((random.randrange(4), random.choice("ab")), random.choice([1, 1, -1])) for _ in range(3)]
                for record, count in batch:
                    counts[record] += count
                changes.send(batch)
                if random.random() < 0.3:
                    readers.append(tw.subscribe(topic))
            changes.advance_to(epoch + 1)
            states.append(plain(counts))
            if random.random() < 0.5:
                job.probe("done").wait_until(epoch + 1, timeout_s=SOON_S)
                readers.append(tw.subscribe(topic))
            for subscription in readers:
                if random.random() < 0.4:
                    assert rows(subscription.to_arrow(until=epoch, timeout_s=SOON_S)) == states[epoch], f"seed {seed}"
                elif random.random() < 0.2:
                    assert rows(subscription.to_arrow()) in [{}, *states], f"seed {seed}"
        job.probe("done").wait_until(len(states), timeout_s=SOON_S)
        readers.append(tw.subscribe(topic))
        changes.close()
        job.wait(timeout_s=SOON_S)
        for subscription in readers:
            assert rows(subscription.to_arrow(until=len(states), timeout_s=SOON_S)) == states[-1], f"seed {seed}"


def test_the_first_epoch_is_the_state_and_each_later_one_comes(topic: str) -> None:
    """A subscriber that reads epochs has all changes, too, and each once."""
    with tw.run(collection(topic), workers=2, engine="local") as job:
        changes = job.input("changes")
        for epoch in range(3):
            changes.send([((epoch, "a"), 1), ((0, "b"), 1)])
            changes.advance_to(epoch + 1)
        job.probe("done").wait_until(3, timeout_s=SOON_S)
        changes.send([((9, "a"), 1)])
        with tw.subscribe(topic) as late:
            changes.advance_to(4)
            changes.send([((0, "b"), -3)])
            changes.close()
            found = [(epoch.time, sorted(epoch.records)) for epoch in late.epochs(timeout_s=SOON_S)]
        job.stop()
    state = [((0, "a"), 1), ((0, "b"), 3), ((1, "a"), 1), ((2, "a"), 1)]
    assert found == [(2, state), (3, [((9, "a"), 1)]), (4, [((0, "b"), -3)])]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"histories/{request.node.name}"


def test_a_condition_holds_for_the_state(topic: str) -> None:
    """The publisher sends no other records, neither at first nor later."""
    with tw.run(collection(topic), workers=2, engine="local") as job, job.input("changes") as changes:
        changes.send([((n, "a"), 1) for n in range(6)])
        changes.advance_to(1)
        job.probe("done").wait_until(1, timeout_s=SOON_S)
        with tw.subscribe(topic, where=lambda change: change[0][0] < 2) as few:
            assert rows(few.to_arrow(until=0, timeout_s=SOON_S)) == {(0, "a"): 1, (1, "a"): 1}
            changes.send([((0, "a"), -1), ((5, "a"), -1)])
            changes.advance_to(2)
            assert rows(few.to_arrow(until=1, timeout_s=SOON_S)) == {(1, "a"): 1}


def test_a_state_may_be_larger_than_the_capacity(topic: str) -> None:
    """The queue of a subscriber is for what comes after it, which reads slowly; the publisher has the state anyway."""
    with tw.run(collection(topic, capacity_bytes=2000), engine="local") as job, job.input("changes") as changes:
        changes.send([((n, "a" * 50), 1) for n in range(500)])
        changes.advance_to(1)
        job.probe("done").wait_until(1, timeout_s=SOON_S)
        with tw.subscribe(topic, slow="block") as slow, tw.subscribe(topic) as other:
            changes.send([((1, "a" * 50), -1)])
            changes.advance_to(2)
            assert slow.to_arrow(until=1, timeout_s=SOON_S).num_rows == 499
            assert other.to_arrow(until=1, timeout_s=SOON_S).num_rows == 499


def test_another_job_has_the_same_collection(topic: str) -> None:
    """A dataflow that reads the topic from some moment on is not told of each change before, and knows the state."""
    with tw.run(collection(topic), workers=2, engine="local") as job:
        changes = job.input("changes")
        changes.send([((1, "a"), 1), ((2, "a"), 1)])
        changes.advance_to(1)
        changes.send([((2, "a"), -1), ((2, "b"), 1)])
        changes.advance_to(2)
        job.probe("done").wait_until(2, timeout_s=SOON_S)
        other = tw.Dataflow(f"reads {topic}")
        read = other.from_topic(topic).as_collection(diff=True)
        read.map(lambda pair: pair[1]).count().changes().capture("letters")
        with tw.run(other, engine="local") as reading:
            changes.close()
            reading.wait(timeout_s=SOON_S)
            found = [change for one in reading.captured("letters") for change in one.batch]
        job.stop()
    assert sorted(found) == [(("a", 1), 1), (("b", 1), 1)]


@pytest.mark.parametrize("read", [iter, tw.types.Subscription.epochs, lambda reader: reader.poll(SOON_S)])
def test_a_table_needs_all_epochs(topic: str, read: Any) -> None:
    """Whoever has read some of them otherwise is told so, and not shown a wrong table."""
    with tw.run(collection(topic), engine="local") as job, tw.subscribe(topic) as reader:
        with job.input("changes") as changes:
            changes.send([((1, "a"), 1)])
        next(iter(read(reader)))
        with raises(DeliveryError):
            reader.to_arrow()
        job.stop()


def test_a_job_cannot_receive_the_state_twice(topic: str, tmp_path: Path) -> None:
    """Its snapshot has the collection already, so adding the state again would double it."""
    other = tw.Dataflow(f"reads {topic}")
    other.from_topic(topic).as_collection(diff=True).changes().capture("read").probe("read")
    snapshots = tw.Snapshots(tmp_path, every_s=1000.0)
    with tw.run(collection(topic), engine="local") as job, job.input("changes") as changes:
        with tw.run(other, engine="local", snapshots=snapshots) as reading:
            changes.send([((1, "a"), 1)])
            changes.advance_to(1)
            reading.probe("read").wait_until(1, timeout_s=SOON_S)
            reading.snapshot(timeout_s=SOON_S)
            reading.stop()
        refused = raises(tw.JobError)
        with refused, tw.run(other, engine="local", snapshots=snapshots) as reading:
            reading.wait(timeout_s=SOON_S)


def test_epochs_cannot_be_dropped(topic: str) -> None:
    """The state would lack them from then on."""
    with tw.run(collection(topic), engine="local") as job:
        with raises(DeliveryError):
            tw.subscribe(topic, slow="drop_epochs")
        job.stop()


def test_only_epochs_have_a_history() -> None:
    """A sum needs times in one order, and ends of substreams do not add up."""
    flow = tw.Dataflow("loops")
    numbers, keys = flow.input("numbers"), flow.input("keys")
    with raises(DeliveryError):
        numbers.enter(flow.scope("loop")).publish("inside", history=True)
    with raises(DeliveryError):
        keys.substreams("keys", key=lambda n: n).publish("ends", history=True, ends=True)


def test_what_is_no_change_has_no_sum(topic: str) -> None:
    """Its publisher tells those who come later, and those who came before find it themselves."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers").publish(topic, history=True).probe("done")
    with tw.run(flow, engine="local") as job, job.input("numbers") as numbers, tw.subscribe(topic) as early:
        numbers.send([1])
        numbers.advance_to(1)
        job.probe("done").wait_until(1, timeout_s=SOON_S)
        with tw.subscribe(topic) as late:
            for reader in (early, late):
                with raises(DeliveryError):
                    reader.to_arrow(until=0, timeout_s=SOON_S)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_job_that_goes_on_from_a_snapshot_has_the_state(topic: str, tmp_path: Path, workers: int) -> None:
    """With any number of workers, though its publishers are new."""
    snapshots = tw.Snapshots(tmp_path, every_s=1000.0)
    with tw.run(collection(topic), workers=2, engine="local", snapshots=snapshots) as job:
        changes = job.input("changes")
        changes.send([((n, "a"), 1) for n in range(8)])
        changes.advance_to(1)
        changes.send([((0, "a"), -1)])
        changes.advance_to(2)
        job.probe("done").wait_until(2, timeout_s=SOON_S)
        changes.send([((50, "a"), 1)])
        job.snapshot(timeout_s=SOON_S)
        job.stop()
    with tw.run(collection(topic), workers=workers, engine="local", snapshots=snapshots) as job:
        expected = {(n, "a"): 1 for n in range(1, 8)}
        with tw.subscribe(topic) as reader:
            assert rows(reader.to_arrow(until=1, timeout_s=SOON_S)) == expected
            changes = job.input("changes")
            changes.send([((1, "a"), -1), ((99, "a"), 1)])
            changes.close()
            del expected[1, "a"]
            assert rows(reader.to_arrow(until=2, timeout_s=SOON_S)) == expected | {(50, "a"): 1, (99, "a"): 1}
        job.stop()
