"""Published ends of substreams on a real Ray cluster: best effort, exactly once, by sockets, calls and relays."""

from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import tidewheel as tw
from tests.ray.topics.test_exactly_once import kill, publishers
from tidewheel.spark_bridge import write_epochs
from tidewheel.transport import tickets

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
EPOCHS = 6
KEYS = 8


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


def halve(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    moved = walks.exchange(lambda walk: walk[1]).map(lambda walk: (walk[0], walk[1] // 2, walk[2]))
    return moved.filter(lambda walk: walk[1] > 0), moved


def walking(topic: str, **options: Any) -> tw.Dataflow:
    """A dataflow of walks (key, number, epoch) that go round a loop, and are published with their ends."""
    flow = tw.Dataflow(topic)
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0]).iterate(halve)
    walks.publish(topic, ends=True, **options).probe("published")
    return flow


def send(walks: Any, epoch: int, keys: range = range(KEYS)) -> None:
    """Send an epoch of which every key ends, to be used again in the next one."""
    walks.send([(key, 5 + key, epoch) for key in keys])
    walks.end_substream(*keys)
    walks.advance_to(epoch + 1)


def assert_all_ended(epochs: list[tw.types.Epoch], lives: int = EPOCHS) -> None:
    """See that each key has ended so often, and no record is in a later epoch than the end of its life."""
    ended_in = defaultdict(list)
    for epoch in epochs:
        for key in epoch.ended:
            ended_in[key].append(epoch.time)
    assert {key: len(times) for key, times in ended_in.items()} == dict.fromkeys(range(KEYS), lives)
    for epoch in epochs:
        assert all(epoch.time <= ended_in[key][life] for key, _, life in epoch.records)
    steps = sum((5 + key).bit_length() for key in range(KEYS))
    assert Counter(record[2] for epoch in epochs for record in epoch.records) == dict.fromkeys(range(lives), steps)


@pytest.mark.parametrize(
    ("way", "partition", "workers"),
    [
        pytest.param("socket", "worker", 1, marks=pytest.mark.long),
        pytest.param("socket", "worker", 3, marks=pytest.mark.long),
        ("socket", "merged", 2),
        ("calls", "worker", 2),
    ],
)
def test_each_end_comes_once(
    topic: str, way: str, partition: Any, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a subscriber is connected, though keys are used again in each epoch; epochs come while others go on."""
    if way == "calls":
        monkeypatch.setattr(tickets, "is_possible", lambda: False)  # in this process alone
    with (
        tw.run(walking(topic, partition=partition), workers=workers, paused=True) as job,
        tw.subscribe(topic) as subscription,
    ):
        job.start()
        epochs = subscription.epochs(timeout_s=DEADLINE_S)
        with job.input("walks") as walks:
            send(walks, 0)
            found = [next(epochs)]
            for epoch in range(1, EPOCHS):
                send(walks, epoch)
        found += epochs
        job.wait(DEADLINE_S)
    assert_all_ended(found)


def test_an_epoch_waits_for_no_end_and_late_subscribers_are_told_of_later_ones(topic: str) -> None:
    """A key that is open does not hold back epochs; its end comes to those who are there then, also without records."""
    flow = tw.Dataflow(topic)
    flow.input("lines").substreams("orders", lambda line: line[0]).publish(topic, ends=True)
    with (
        tw.run(flow, workers=2) as job,
        job.input("lines") as lines,
        tw.subscribe(topic) as early,
        ExitStack() as stack,
    ):
        lines.send([("a", 1), ("b", 2)])
        lines.end_substream("b")
        lines.advance_to(1)
        first = next(early.epochs(timeout_s=DEADLINE_S))
        assert sorted(first.records) == [("a", 1), ("b", 2)]
        assert "a" not in first.ended
        late = stack.enter_context(tw.subscribe(topic, where=lambda line: line[1] > 5))
        lines.advance_to(2)
        lines.send([("a", 3), ("c", 6)])
        lines.end_substream("a")
        lines.close()
        later = list(late.epochs(timeout_s=DEADLINE_S))
        rest = [first, *early.epochs(timeout_s=DEADLINE_S)]
        job.wait(DEADLINE_S)
    assert sorted(key for epoch in rest for key in epoch.ended) == ["a", "b", "c"]
    assert [record for epoch in later for record in epoch.records] == [("c", 6)]
    assert sorted(key for epoch in later for key in epoch.ended if key != "b") == ["a", "c"]


def test_ends_are_durable_and_come_again_until_they_are_acknowledged(topic: str, tmp_path: Path) -> None:
    """With exactly-once delivery, over the death of publishers, and to who goes on with a subscription later."""
    flow = walking(topic, log=tw.Log(tmp_path))
    with tw.run(flow, workers=2) as job, ExitStack() as stack:
        found: list[tw.types.Epoch] = []
        with job.input("walks") as walks:
            with tw.subscribe(topic, durable=tw.Durable("billing", ack="manual")) as billing:
                for epoch in range(2):
                    send(walks, epoch)
                job.probe("published").wait_until(2, DEADLINE_S)
                epochs = billing.epochs(timeout_s=DEADLINE_S)
                found.append(next(epochs))
                billing.acknowledge(found[0])
                next(epochs)  # it is given out, and not acknowledged
            for publisher in publishers(topic):
                kill(publisher)
            again = stack.enter_context(tw.subscribe(topic, durable=tw.Durable("billing")))
            for epoch in range(2, EPOCHS):
                send(walks, epoch)
        found += again.epochs(timeout_s=DEADLINE_S)
        job.wait(DEADLINE_S)
    assert_all_ended(found)
    assert len({epoch.time for epoch in found}) == len(found)


@pytest.mark.parametrize(
    "where", [pytest.param(None, marks=pytest.mark.long), lambda walk: walk[1] == 0], ids=["all", "where"]
)
def test_relays_pass_ends_on(topic: str, where: Any, tmp_path: Path) -> None:
    """As they are, also to who wants some records only."""
    with tw.run(walking(topic, log=tw.Log(tmp_path)), workers=2) as job, ExitStack() as stack:
        stack.enter_context(tw.relay(topic))
        subscription = stack.enter_context(tw.subscribe(topic, where=where, start="earliest"))
        with job.input("walks") as walks:
            for epoch in range(EPOCHS):
                send(walks, epoch)
        epochs = list(subscription.epochs(timeout_s=DEADLINE_S))
        job.wait(DEADLINE_S)
    if where is None:
        assert_all_ended(epochs)
    assert Counter(key for epoch in epochs for key in epoch.ended) == dict.fromkeys(range(KEYS), EPOCHS)
    assert Counter(walk for epoch in epochs for walk in epoch.records if not walk[1]) == Counter(
        (key, 0, epoch) for key in range(KEYS) for epoch in range(EPOCHS)
    )


@pytest.mark.long
def test_a_job_that_starts_again_with_ends_needs_another_log(topic: str, tmp_path: Path) -> None:
    """As its ends are told at other times, some would be there twice, and others never; without ends it may go on."""
    flow = walking(topic, log=tw.Log(tmp_path))
    with tw.run(flow, workers=1) as job:
        with job.input("walks") as walks:
            send(walks, 0)
        job.wait(DEADLINE_S)
    with pytest.raises(tw.DeliveryError, match=r"has something already, .* Give this run a log of its own"):
        tw.run(walking(topic, log=tw.Log(tmp_path)), workers=1)
    with tw.run(walking(topic, log=tw.Log(tmp_path / "other")), workers=1) as job:
        job.input("walks").close()
        job.wait(DEADLINE_S)


def test_folders_of_epochs_have_the_records_alone(topic: str, tmp_path: Path) -> None:
    """What `write_epochs` does not write, the ends, it acknowledges all the same: nothing of it comes again."""
    flow = tw.Dataflow(topic)
    rows = flow.input("rows").substreams("orders", "key")
    rows.publish(topic, ends=True, log=tw.Log(tmp_path / "log"))
    with tw.run(flow) as job:
        with write_epochs(topic, tmp_path / "epochs", checkpoint=tmp_path / "state", max_delay_s=0) as writer:
            with job.input("rows") as handle:
                for epoch in range(3):
                    handle.send(pa.table({"key": ["a", "b"], "n": [epoch, 10 + epoch]}))
                    handle.advance_to(epoch + 1)
                handle.end_substream("a", "b", "never")
            writer.wait(DEADLINE_S)
        with tw.subscribe(topic, durable=tw.Durable(writer.subscription)) as again:
            assert list(again.epochs(timeout_s=DEADLINE_S)) == []
        job.wait(DEADLINE_S)
    written = [parquet.read_table(file)["n"].to_pylist() for file in (tmp_path / "epochs").glob("*.parquet")]
    assert sorted(n for part in written for n in part) == [0, 1, 2, 10, 11, 12]
