"""Topics with history on a real Ray cluster: dashboards that come late, logs, and processes that die meanwhile."""

import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.ray.topics.test_exactly_once import kill, publishers
from tests.ray.topics.test_exactly_once_kills import kill_actor
from tests.ray.worker_killer import WorkerKiller
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.delivery_messages import Begun
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
EPOCHS = 60
PAUSE_S = 0.03
RUNS = [("best_effort", 0), *(pytest.param("best_effort", seed, marks=pytest.mark.long) for seed in range(1, 6))]
RUNS += [pytest.param("exactly_once", seed, marks=pytest.mark.long) for seed in range(4)]


def collection(topic: str, **options: Any) -> tw.Dataflow:
    """A job that publishes a collection of pairs, which several workers have parts of."""
    flow = tw.Dataflow(f"publishes {topic}")
    changes = flow.input("changes").as_collection(diff=True).changes(columns=["key", "value"])
    changes.publish(topic, history=True, **options).probe("done")
    return flow


def changes_of(epoch: int) -> list[tuple[tuple[int, int], int]]:
    """Return the changes of an epoch: each record is added, and goes three epochs later."""
    added = [((n, epoch), 1) for n in range(5)]
    return added if epoch < 3 else [*added, *(((n, epoch - 3), -1) for n in range(5))]


def state_at(epoch: int) -> dict[tuple[int, int], int]:
    """Return what plain Python makes of all changes until an epoch."""
    counts: Counter[tuple[int, int]] = Counter()
    for one in range(epoch + 1):
        for record, count in changes_of(one):
            counts[record] += count
    return {record: count for record, count in counts.items() if count}


def rows(table: Any) -> dict[tuple[int, int], int]:
    found = [((row["key"], row["value"]), row["diff"]) for row in table.to_pylist()]
    assert len(dict(found)) == len(found)
    return dict(found)


def send(changes: Any, epochs: range) -> None:
    for epoch in epochs:
        changes.send(changes_of(epoch))
        changes.advance_to(epoch + 1)


def test_a_dashboard_has_the_state_whenever_it_comes() -> None:
    """In the middle of epochs, while another one reads slowly, and when some partitions are ahead of others."""
    topic = "histories, live"
    with nothing_left(), tw.run(collection(topic), workers=2) as job, ExitStack() as opened:
        changes = job.input("changes")
        readers = []
        for epoch in range(12):
            send(changes, range(epoch, epoch + 1))
            changes.send(changes_of(epoch + 1)[:2])
            reader = opened.enter_context(tw.subscribe(topic))
            changes.send([(record, -count) for record, count in changes_of(epoch + 1)[:2]])
            readers.append(reader)
            assert rows(reader.to_arrow(until=epoch, timeout_s=DEADLINE_S)) == state_at(epoch)
            with tw.subscribe(topic) as late:  # publishers may not have heard yet that the last epoch is complete
                assert rows(late.to_arrow(timeout_s=DEADLINE_S)) in [state_at(epoch), state_at(epoch - 1)]
        changes.close()
        for reader in readers:
            assert rows(reader.to_arrow(until=12, timeout_s=DEADLINE_S)) == state_at(11)
        job.wait(timeout_s=DEADLINE_S)


def test_a_log_has_the_state_for_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though all have acknowledged everything, a publisher has died, and the job was started again."""
    topic = "histories, logged"
    options = {"log": tw.Log(tmp_path)}
    with nothing_left(), tw.run(collection(topic, **options), workers=2) as job:
        changes = job.input("changes")
        with tw.subscribe(topic, durable=tw.Durable("named")) as named:
            send(changes, range(6))
            assert rows(named.to_arrow(until=5, timeout_s=DEADLINE_S)) == state_at(5)
        for publisher in publishers(topic):
            kill(publisher)
        with tw.subscribe(topic) as late:
            first = next(iter(late.epochs(timeout_s=DEADLINE_S)))
            assert first.time == 5
            assert total([first]) == state_at(5)
        send(changes, range(6, 8))
        with tw.relay(topic), tw.subscribe(topic) as late:
            assert rows(late.to_arrow(until=7, timeout_s=DEADLINE_S)) == state_at(7)
        with tw.subscribe(topic, durable=tw.Durable("named")) as named:
            with pytest.raises(DeliveryError, match="goes on where it was before, so to_arrow"):
                named.to_arrow(until=7, timeout_s=DEADLINE_S)
            found = [epoch for _, epoch in zip(range(2), named.epochs(timeout_s=DEADLINE_S), strict=False)]
            assert [epoch.time for epoch in found] == [6, 7]
        job.topic(topic).wait_until(8, timeout_s=DEADLINE_S)
        begun = PubendCalls.subscribe
        with monkeypatch.context() as patch:
            patch.setattr(PubendCalls, "subscribe", lambda self: [forgetful(one) for one in begun(self)])
            with pytest.raises(DeliveryError, match="its log has forgotten changes"):
                tw.subscribe(topic)
        job.stop()
    with nothing_left(), tw.run(collection(topic, **options), workers=1) as job:
        changes = job.input("changes")
        send(changes, range(9))
        with tw.subscribe(topic) as late:
            assert rows(late.to_arrow(until=8, timeout_s=DEADLINE_S)) == state_at(8)
        changes.close()
        job.wait(timeout_s=DEADLINE_S)


def forgetful(begun: Begun) -> Begun:
    """Return the answer of a pubend whose log was written without history, and trimmed."""
    return replace(begun, acknowledged=((0, 5),))


def total(epochs: list[tw.types.Epoch]) -> dict[tuple[int, int], int]:
    """Return the sum of the changes in some epochs."""
    counts: Counter[tuple[int, int]] = Counter()
    for epoch in epochs:
        for row in epoch.records:
            counts[row["key"], row["value"]] += row["diff"]
    return {record: count for record, count in counts.items() if count}


@pytest.mark.parametrize(("delivery", "seed"), RUNS)
def test_the_state_outlives_workers_and_publishers(tmp_path: Path, delivery: str, seed: int) -> None:
    """The job goes back: those who come before, meanwhile and after have the same state.

    `tests/protocol/test_history.py` has publishers without a log that die.
    """
    random = Random(seed)
    topic = f"histories, recovered {delivery} {seed}"
    options = {} if delivery == "best_effort" else {"log": tw.Log(tmp_path / "log")}
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.3, restarts=6)
    kills = random.sample(range(10, EPOCHS // 2), 2)
    flow = collection(topic, **options)
    with nothing_left(), tw.run(flow, workers=2, snapshots=snapshots) as job, ExitStack() as opened:
        readers = [opened.enter_context(tw.subscribe(topic))]
        rewound = 0
        while True:
            try:
                changes = job.input("changes")
                for epoch in range(changes.position.batches, EPOCHS):
                    if epoch in kills:
                        kills.remove(epoch)
                        WorkerKiller(random).strike()
                        if delivery == "exactly_once":
                            kill_actor(random.choice(publishers(topic)))
                    changes.advance_to(epoch)
                    changes.send(changes_of(epoch))
                    if random.random() < 0.1:
                        readers.append(opened.enter_context(tw.subscribe(topic, timeout_s=DEADLINE_S)))
                    threading.Event().wait(PAUSE_S)
                changes.advance_to(EPOCHS)
                job.probe("done").wait_until(EPOCHS, timeout_s=DEADLINE_S)
                break
            except tw.JobRolledBack:
                rewound += 1
        readers.append(opened.enter_context(tw.subscribe(topic)))
        found = [table for reader in readers if (table := last_table(reader)) is not None]
        assert rewound, f"seed {seed}: the job never went back"
        assert len(found) > len(readers) // 2, f"seed {seed}"
        for table in found:
            assert table == state_at(EPOCHS - 1), f"seed {seed}"
        assert last_table(readers[-1]) is not None, f"seed {seed}"
        job.stop()


def last_table(reader: tw.types.Subscription) -> dict[tuple[int, int], int] | None:
    """Return the state after the last epoch; None if the reader is told that it has to subscribe again."""
    try:
        return rows(reader.to_arrow(until=EPOCHS - 1, timeout_s=DEADLINE_S))
    except PublisherLost:
        return None
