"""Published ends of substreams, with subscribers in the same process."""

from collections import Counter, defaultdict
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.behaviour.operators.test_substreams import Sessions, assert_nothing_left, sessions
from tests.kit.messages import raises
from tests.kit.operators.harness import operator_settings, settle

DEADLINE_S = 20.0

_NUMBERS = count()

Life = tuple[int, int]
"""A key, and how often it had ended before."""


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"published ends/{next(_NUMBERS)}"


def halve(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    """Go round a loop with (key, number, life), at a worker that the number decides, until nothing is left of it."""
    moved = walks.exchange(lambda walk: walk[1]).map(lambda walk: (walk[0], walk[1] // 2, walk[2]))
    return moved.filter(lambda walk: walk[1] > 0), moved


def delayed(walk: tuple[int, int, int], time: int) -> int:
    """Return a time that may be later than that of the next use of the key."""
    return time + walk[1] % 4


def with_lives(feed: Sessions) -> tuple[list[tuple[int, list[tuple[int, int, int]], list[int]]], Counter[int]]:
    """Return the feed with the life of each record, and how often each key is to end, the end of the input included."""
    ends: Counter[int] = Counter()
    live: set[int] = set()
    made = []
    for epoch, sent, ended in feed:
        made.append((epoch, [(key, number, ends[key]) for key, number in sent], ended))
        live.update(key for key, _ in sent)
        ends.update(ended)
        live.difference_update(ended)
    return made, ends + Counter(live)


def assert_ends_are_last(epochs: list[tw.types.Epoch]) -> None:
    """See that no record of a life of a key is in an epoch after the one with its end; and in the order of events."""
    ended_in: defaultdict[int, list[int]] = defaultdict(list)
    for place, epoch in enumerate(epochs):
        for key in epoch.ended:
            ended_in[key].append(place)
    for place, epoch in enumerate(epochs):
        for key, _, life in epoch.records:
            assert place <= ended_in[key][life], f"a record of {key} came after its end"
        assert_next_lives_can_be_told(epoch)


def assert_next_lives_can_be_told(epoch: tw.types.Epoch) -> None:
    """See that a record of a key of which an end is in the same epoch has a greater number if it is of a later life."""
    by_key = {key: (end.partition, end.number) for end in epoch.ends for key in end.keys}
    once = {key for key, many in Counter(epoch.ended).items() if many == 1}
    for key in once:
        lives = defaultdict(list)
        for batch in epoch.batches:
            for record in batch.records:
                if record[0] == key:
                    lives[batch.partition == by_key[key][0] and batch.number > by_key[key][1]].append(record[2])
        assert not lives[True] or not lives[False] or max(lives[False]) < min(lives[True])


def latest_times(job: tw.types.Job) -> list[dict[Any, int]]:
    """Return what the operators that publish remember of open substreams, for each worker of a local job."""
    instances = [instance for core in job._cores for instance in core._instances]  # type: ignore[attr-defined]
    return [one.kept.states["latest"] for one in instances if one.name.startswith("publish")]


def halves(walk: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return what comes out of `halve` of a walk, all of its rounds together."""
    return [(walk[0], walk[1] >> step, *walk[2:]) for step in range(1, walk[1].bit_length() + 1)]


@operator_settings(60)
@given(sessions(), st.integers(1, 3), st.sampled_from(["worker", "merged"]), st.booleans(), st.booleans())
def test_each_end_comes_once_and_after_all_records(
    feed: Sessions, workers: int, partition: Any, is_slow: bool, in_loop: bool
) -> None:
    """Each life of a key ends once, though nothing of it may have come, on one worker and several; the job ends.

    The records have been round a loop, or not.
    """
    name = f"published ends/{next(_NUMBERS)}"
    lives, ends = with_lives(feed)
    flow = tw.Dataflow("walks")
    divided = flow.input("walks").substreams("walks", lambda walk: walk[0])
    walks = divided.iterate(halve) if in_loop else divided.exchange(lambda walk: walk[1]).flat_map(halves)
    walks.delay(delayed).publish(name, ends=True, partition=partition)
    with tw.run(flow, workers=workers, engine="local", paused=True) as job, tw.subscribe(name) as subscription:
        job.start()
        with job.input("walks") as handle:
            for epoch, sent, ended in lives:
                handle.advance_to(epoch)
                for walk in sent:
                    handle.send([walk])
                handle.end_substream(*ended)
                if is_slow:  # otherwise the job begins when all was sent
                    settle(job)
        epochs = list(subscription.epochs(timeout_s=DEADLINE_S))
        job.wait(DEADLINE_S)
        assert_nothing_left(job)
        assert not any(latest_times(job))
    assert Counter(key for epoch in epochs for key in epoch.ended) == ends
    assert_ends_are_last(epochs)
    steps: Counter[int] = Counter()
    for epoch, sent, _ in lives:
        for key, number, life in sent:
            steps.update(delayed((key, number >> step, life), epoch) for step in range(1, number.bit_length() + 1))
    assert Counter({epoch.time: len(epoch) for epoch in epochs if len(epoch)}) == steps


@pytest.mark.parametrize("workers", [1, 3])
def test_epochs_become_complete_while_substreams_are_open(topic: str, workers: int) -> None:
    """No epoch waits for an end; that comes with a later epoch, which may have no record at all."""
    flow = tw.Dataflow("orders")
    flow.input("lines").substreams("orders", lambda line: line[0]).publish(topic, ends=True)
    with tw.run(flow, workers=workers, engine="local") as job, tw.subscribe(topic) as subscription:
        epochs = subscription.epochs(timeout_s=DEADLINE_S)
        with job.input("lines") as lines:
            for time in range(3):
                lines.send([("a", time)])
                lines.advance_to(time + 1)
                found = next(epochs)
                assert (found.time, found.records, found.ended) == (time, [("a", time)], ())
            lines.end_substream("a")
            settle(job)
            lines.advance_to(4)
            found = next(epochs)
            assert (found.time, found.records, found.ended, len(found)) == (3, [], ("a",), 0)
            assert found.to_arrow().num_rows == 0
        assert list(epochs) == []


def test_an_end_comes_with_the_epoch_of_the_last_records(topic: str) -> None:
    """Where these are later than what is complete when it becomes known, whichever worker had them and owns the key."""
    keys = list("abcdefgh")
    flow = tw.Dataflow("orders")
    orders = flow.input("lines").substreams("orders", lambda line: line[0])
    orders.delay(lambda line, time: time + line[1]).publish(topic, ends=True)
    with tw.run(flow, workers=3, engine="local") as job, tw.subscribe(topic) as subscription:
        with job.input("lines") as lines:
            lines.send([(key, later) for key in keys for later in (5, 2)])
            lines.end_substream(*keys)
            settle(job)
            lines.advance_to(1)
            settle(job)
        epochs = [
            (epoch.time, sorted(epoch.records), sorted(epoch.ended))
            for epoch in subscription.epochs(timeout_s=DEADLINE_S)
        ]
    assert epochs == [(2, [(key, 2) for key in keys], []), (5, [(key, 5) for key in keys], keys)]


def test_ends_without_records_come_too(topic: str) -> None:
    """A key of which nothing gets to the topic, or of which there never was anything, ends there all the same."""
    flow = tw.Dataflow("orders")
    orders = flow.input("lines").substreams("orders", lambda line: line[0])
    orders.filter(lambda line: line[1] > 10).publish(topic, ends=True)
    with tw.run(flow, workers=2, engine="local", paused=True) as job, tw.subscribe(topic) as subscription:
        job.start()
        with job.input("lines") as lines:
            lines.send([("a", 1), ("b", 11), ("c", 2)])
            lines.end_substream("a", "never")
        epochs = list(subscription.epochs(timeout_s=DEADLINE_S))
    assert [epoch.records for epoch in epochs] == [[("b", 11)]]
    assert sorted(epochs[0].ended) == ["a", "b", "c", "never"]


def test_a_topic_ends_though_other_substreams_are_open(topic: str) -> None:
    """Its last epoch waits for the ends of its own declaration, and for nobody else's."""
    flow = tw.Dataflow("orders and visits")
    flow.input("lines").substreams("orders", lambda line: line[0]).publish(topic, ends=True)
    flow.input("clicks").substreams("visits", lambda click: click[0]).publish(f"{topic}/other", ends=True)
    with tw.run(flow, workers=2, engine="local") as job, tw.subscribe(topic) as subscription:
        job.input("clicks").send([("x", 1)])
        with job.input("lines") as lines:
            lines.send([("a", 1)])
        assert [epoch.ended for epoch in subscription.epochs(timeout_s=DEADLINE_S)] == [("a",)]
        job.input("clicks").close()


def test_events_have_ends_behind_the_records(topic: str) -> None:
    """Who iterates over events gets a `SubstreamsEnded`, after the batches of its keys and before their next use."""
    flow = tw.Dataflow("orders")
    flow.input("lines").substreams("orders", lambda line: line[0]).publish(topic, ends=True)
    with tw.run(flow, engine="local") as job, tw.subscribe(topic) as subscription:
        with job.input("lines") as lines:
            lines.send([("a", 1)])
            lines.end_substream("a")
            lines.advance_to(1)
            lines.send([("a", 2)])
        events = [event for event in subscription if isinstance(event, tw.types.Batch | tw.types.SubstreamsEnded)]
    shown = [event.records if isinstance(event, tw.types.Batch) else event.keys for event in events]
    assert shown == [[("a", 1)], ("a",), [("a", 2)], ("a",)]
    assert [event.number for event in events] == sorted(event.number for event in events)


@pytest.mark.parametrize("slow", ["disconnect", "drop_epochs", "block"])
def test_a_condition_on_records_leaves_ends_alone(topic: str, slow: Any) -> None:
    """It is not asked about keys; and the ways of slow subscribers do not matter to one that reads."""
    flow = tw.Dataflow("orders")
    flow.input("lines").substreams("orders", lambda line: line[0]).publish(topic, ends=True, schema=tuple)
    with (
        tw.run(flow, workers=2, engine="local", paused=True) as job,
        tw.subscribe(topic, where=lambda line: line[1] > 1, slow=slow, schema=tuple) as subscription,
    ):
        job.start()
        with job.input("lines") as lines:
            lines.send([("a", 1), ("b", 2), ("c", 3)])
            lines.end_substream("a", "c")
            lines.advance_to(1)
            lines.send([("b", 3), ("d", 0)])
        epochs = list(subscription.epochs(timeout_s=DEADLINE_S))
    assert sorted(record for epoch in epochs for record in epoch.records) == [("b", 2), ("b", 3), ("c", 3)]
    assert sorted(key for epoch in epochs for key in epoch.ended) == ["a", "b", "c", "d"]


def test_batches_of_arrow_stay_tables(topic: str) -> None:
    """Ends are beside the records, so that tables of epochs, and of all, have rows alone."""
    flow = tw.Dataflow("orders")
    orders = flow.input("lines", pa.schema({"key": pa.string(), "n": pa.int64()})).substreams("orders", "key")
    orders.publish(topic, ends=True, partition="merged")
    with tw.run(flow, workers=2, engine="local", paused=True) as job, tw.subscribe(topic) as subscription:
        job.start()
        with job.input("lines") as lines:
            for time in range(2):
                lines.send(pa.table({"key": ["a", "b"], "n": [time, 10 + time]}))
                lines.advance_to(time + 1)
            lines.end_substream("a")
        found = subscription.to_arrow(until=2, timeout_s=DEADLINE_S)
    assert sorted(found["n"].to_pylist()) == [0, 1, 10, 11]


def test_from_topic_leaves_ends_out(topic: str) -> None:
    """A dataflow that reads the topic gets its records, and an epoch with ends alone is complete there, too."""
    first, second = tw.Dataflow("first"), tw.Dataflow("second")
    first.input("lines").substreams("orders", lambda line: line[0]).publish(topic, ends=True)
    second.from_topic(topic).capture("lines")
    with tw.run(first, engine="local") as one, tw.run(second, engine="local") as other:
        one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        with one.input("lines") as lines:
            lines.send([("a", 1)])
            lines.advance_to(1)
            lines.end_substream("a")
        other.wait(timeout_s=DEADLINE_S)
        assert [captured.batch for captured in other.captured("lines")] == [[("a", 1)]]


def test_a_stream_without_substreams_is_refused(topic: str) -> None:
    """As it is described, with what to do; so is one that has them no more."""
    flow = tw.Dataflow("plain")
    with raises(tw.GraphError):
        flow.input("lines").publish(topic, ends=True)
    left = flow.input("others").substreams("orders", lambda line: line[0]).without_substreams()
    with raises(tw.GraphError):
        left.publish(topic, ends=True)
    left.publish(topic)


def test_times_in_no_order_are_refused(topic: str) -> None:
    """Inside a loop no epoch is the last of a substream."""

    def body(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        walks.publish(topic, ends=True)
        return halve(walks)

    flow = tw.Dataflow("loop")
    with raises(tw.GraphError):
        flow.input("walks").substreams("walks", lambda walk: walk[0]).iterate(body)
