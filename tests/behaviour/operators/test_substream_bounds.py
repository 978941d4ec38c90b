"""Firm bounds against a batch computation, on the local engine."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tidewheel as tw
from tests.behaviour.operators.test_substreams import (
    Sessions,
    assert_nothing_left,
    lengths_of,
    lives_of,
    rows,
    seen_by,
    sessions,
)
from tests.kit.messages import raises
from tests.kit.operators.harness import operator_settings

DEADLINE_S = 20.0
Event = tuple[int, str, Any]
"""(worker, "record" or "end", key)."""


def in_pieces(events: list[Event]) -> Callable[[Any], Any]:
    """Return the build function of an operator that sends (key, how many records) at the end of each piece."""

    def build(context: Any) -> Any:
        piece: list[Any] = []

        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                events.append((context.worker, "record", token.key))
                if not piece:
                    piece.append(token.retain())
                piece.extend(batch)
            for key in input.ended:
                events.append((context.worker, "end", key))
                if piece:
                    token, *records = piece
                    piece.clear()
                    with token:
                        output.send(token, [(key, len(records))])

        return schedule

    return build


def assert_firm(events: list[Event], feed: Sessions, workers: int) -> None:
    """See that on each worker substreams come in one piece, and are told of as often as they have lived."""
    lives = lives_of(feed)
    for worker in range(workers):
        own = [event for event in events if event[0] == worker]
        assert Counter(key for _, kind, key in own if kind == "end") == lives, f"worker {worker} was told of other ends"
        for (_, kind, key), (_, _, following) in pairwise(own):
            assert kind == "end" or key == following, f"worker {worker} got something of {following} within {key}"


def play(job: tw.types.Job, feed: Sessions) -> None:
    """Feed sessions, and wait for the end."""
    with job.input("walks") as handle:
        for epoch, sent, ended in feed:
            handle.advance_to(epoch)
            for walk in sent:
                handle.send([walk])
            handle.end_substream(*ended)
    job.wait(DEADLINE_S)


def totals(feed: Sessions) -> Counter[tuple[int, int]]:
    """Return how many records each substream has, by plain Python."""
    lives: Counter[int] = Counter()
    found: Counter[tuple[int, int]] = Counter()
    for _, sent, ended in feed:
        lives.update(key for key, _ in sent)
        found.update((key, lives.pop(key)) for key in ended if key in lives)
    return found + Counter(lives.items())


@operator_settings(60)
@given(sessions(), st.integers(1, 4))
def test_a_firm_bound_has_each_substream_in_one_piece(feed: Sessions, workers: int) -> None:
    """Whoever waits for nothing but the end of the piece finds what a batch computation does.

    Records of each key come from several workers; behind the operator, a soft bound is told in time.
    """
    events: list[Event] = []
    flow = tw.Dataflow("pieces")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    scattered = walks.exchange(lambda walk: walk[1]).map(tuple)
    pieces = scattered.unary(in_pieces(events), lambda walk: walk[0], bound="firm", name="pieces")
    pieces.collect_substream(lambda key, found: found).capture("found")
    with tw.run(flow, workers=workers, engine="local") as job:
        play(job, feed)
        assert Counter(row for found in rows(job, "found") for row in found) == totals(feed)
        assert max(map(len, rows(job, "found")), default=1) == 1
        assert_nothing_left(job)
    assert_firm(events, feed, workers)


@operator_settings(60)
@given(sessions(), st.integers(1, 4))
def test_in_a_loop_substreams_take_turns(feed: Sessions, workers: int) -> None:
    """At two operators of one loop, each substream is in one piece through all of its rounds."""
    first: list[Event] = []
    second: list[Event] = []

    def body(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        one = walks.unary(seen_by(first), lambda walk: walk[1], bound="firm", name="first")
        moved = one.unary(seen_by(second), bound="firm", name="second").map(lambda walk: (walk[0], walk[1] // 2))
        return moved.filter(lambda walk: walk[1] > 0), moved

    flow = tw.Dataflow("turns")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0]).iterate(body)
    walks.collect_substream(lambda key, steps: (key, len(steps))).capture("lengths")
    with tw.run(flow, workers=workers, engine="local") as job:
        play(job, feed)
        assert Counter(rows(job, "lengths")) == lengths_of(feed)
        assert_nothing_left(job)
    assert_firm(first, feed, workers)
    assert_firm(second, feed, workers)


@operator_settings(60)
@given(sessions(), st.integers(1, 3), st.sampled_from(["soft", "firm"]))
@example([(0, [(1, 1), (2, 1)], [1]), (1, [(1, 2)], [])], 1, "firm")
@example([(0, [(1, 1), (2, 1)], [1]), (1, [(1, 2)], [])], 3, "firm")
def test_what_is_open_at_the_end_does_not_keep_keys_from_being_used_again(
    feed: Sessions, workers: int, bound: Any
) -> None:
    """Though it holds its epoch open, for which the operator behind waits with what had the key before."""
    flow = tw.Dataflow("again")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    states = walks.unary(seen_by([]), bound=bound, name="pass").stateful_map(
        lambda walk: walk[0], start=int, step=lambda number, walk: (number + 1, walk), scope="substream"
    )
    states.collect_substream(lambda key, found: (key, len(found))).capture("counts")
    with tw.run(flow, workers=workers, engine="local") as job:
        play(job, feed)
        assert Counter(rows(job, "counts")) == totals(feed)
        assert_nothing_left(job)


@operator_settings(40)
@given(sessions(), st.integers(1, 4))
def test_ends_are_found_through_branches_that_meet_again(feed: Sessions, workers: int) -> None:
    """With results that are sent at an end, and asked for behind that."""
    flow = tw.Dataflow("branches")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    odd, even = walks.branch(lambda walk: walk[1] % 2 == 1)
    met = odd.exchange(lambda walk: walk[1]).concat(even.map(tuple).rebalance())
    counts = met.collect_substream(lambda key, found: (key, len(found)))
    counts.collect_substream(lambda key, found: found).capture("counts")
    with tw.run(flow, workers=workers, engine="local") as job:
        play(job, feed)
        assert Counter(row for found in rows(job, "counts") for row in found) == totals(feed)
        assert_nothing_left(job)


@pytest.mark.parametrize("bound", ["soft", "firm"])
@pytest.mark.parametrize("workers", [1, 3])
def test_ends_come_in_the_order_of_closing(bound: Any, workers: int) -> None:
    """Though what was closed first has further to go."""
    events: list[Event] = []
    flow = tw.Dataflow("order")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    slow = walks.filter(lambda walk: walk[0] % 2 == 0).rebalance().rebalance().map(tuple)
    fast = walks.filter(lambda walk: walk[0] % 2 == 1)
    met = slow.concat(fast).unary(seen_by(events), bound=bound, ordered=True, name="met")
    met.capture("met")
    order = [7, 2, 5, 4, 1, 0, 3, 6]
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("walks") as handle:
            handle.send([(key, number) for number in range(5) for key in range(8)])
            for key in order:
                handle.end_substream(key)
        job.wait(DEADLINE_S)
    for worker in range(workers):
        assert [key for at, kind, key in events if (at, kind) == (worker, "end")] == order


def test_what_waits_for_a_firm_bound_holds_no_source_back() -> None:
    """With one byte in flight, all of a substream waits, and its end comes."""
    events: list[Event] = []
    flow = tw.Dataflow("congested")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    walks.exchange(lambda walk: walk[1]).unary(in_pieces(events), bound="firm", name="pieces").capture("pieces")
    with tw.run(flow, workers=2, engine="local", config=tw.RuntimeConfig(bytes_in_flight=1)) as job:
        with job.input("walks") as handle:
            for number in range(20):
                handle.send([("a", number), ("b", number)])
            while job.run_round():  # type: ignore[attr-defined]
                pass
            assert events == []
            handle.end_substream("b")
            while job.run_round():  # type: ignore[attr-defined]
                pass
            assert {key for _, _, key in events} == {"b"}
        job.wait(DEADLINE_S)
        for sent in "ab":
            assert sum(many for key, many in rows(job, "pieces") if key == sent) == 20


def test_an_input_without_substreams_is_read_beside_a_firm_one() -> None:
    """What is of no substream waits for none, as no operator knows what it would wait for."""
    seen: list[Any] = []

    def build(context: Any) -> Any:
        def schedule(left: Any, right: Any, output: Any) -> None:
            for _, batch in right:
                seen.append(("plain", *batch))
            for token, batch in left:
                seen.append((token.key, *batch))
            seen.extend(("end", key) for key in left.ended)

        return schedule

    flow = tw.Dataflow("beside")
    walks = flow.input("walks").substreams("walks", lambda walk: walk % 2)
    walks.binary(flow.input("plain"), build, bound="firm", name="both").capture("nothing")
    with tw.run(flow, engine="local") as job:
        with job.input("walks") as handle, job.input("plain") as plain:
            handle.send([1, 2, 3, 4])
            plain.send(["plain"])
            while job.run_round():  # type: ignore[attr-defined]
                pass
            assert seen == [("plain", "plain")]
            handle.end_substream(1)
        job.wait(DEADLINE_S)
    assert seen[1:] == [(1, 1, 3), ("end", 1), (0, 2, 4), ("end", 0)]


def test_many_keys_leave_nothing_behind() -> None:
    """Thousands of keys, some of them used again at once, while their ends are on the way."""
    flow = tw.Dataflow("many")
    pairs = flow.input("numbers").substreams("pairs", lambda n: n // 2 % 700)
    moved = pairs.exchange(lambda n: n).exchange(lambda n: n // 3)
    moved.collect_substream(lambda key, found: (key, len(found))).capture("pairs")
    with tw.run(flow, workers=3, engine="local") as job:
        with job.input("numbers") as handle:
            for epoch in range(30):
                handle.advance_to(epoch)
                handle.send(list(range(200 * epoch, 200 * (epoch + 1))))
                handle.end_substream(*{n // 2 % 700 for n in range(200 * epoch, 200 * (epoch + 1))})
        job.wait(DEADLINE_S)
        assert Counter(rows(job, "pairs")) == Counter((n % 700, 2) for n in range(3000))
        assert_nothing_left(job)


def test_an_input_that_is_never_read_keeps_no_substream_open() -> None:
    """An operator that only looks at the frontier of an input holds no substream open by what never comes there."""

    def clocked(context: Any) -> Any:
        def schedule(left: Any, clock: Any, output: Any) -> None:
            for token, batch in left:
                output.send(token, batch)
            assert clock.frontier is not None

        return schedule

    flow = tw.Dataflow("clocked")
    numbers = flow.input("walks").substreams("walks", lambda walk: walk[0])
    beside = numbers.binary(numbers.filter(lambda walk: walk[1] < 0), clocked, name="clocked")
    beside.collect_substream(lambda key, found: (key, len(found))).capture("counts")
    with tw.run(flow, workers=2, engine="local") as job:
        play(job, [(0, [(1, 5), (2, 6)], [1]), (1, [(1, 7)], [])])
        assert sorted(rows(job, "counts")) == [(1, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("bound", ["soft", "firm"])
def test_tokens_may_be_kept_where_nobody_asks_behind(bound: Any) -> None:
    """An operator that sends two epochs later does not wait for itself, though the key is used again in between."""

    def later(context: Any) -> Any:
        kept: list[Any] = []

        def schedule(input: Any, output: Any) -> None:
            kept.extend((token.time, token.retain(), batch) for token, batch in input)
            assert all(key == "a" for key in input.ended)
            for one in [one for one in kept if not input.frontier.less_equal(one[0] + 1)]:
                kept.remove(one)
                with one[1] as token:
                    output.send(token, one[2])

        return schedule

    flow = tw.Dataflow("later")
    letters = flow.input("letters").substreams("letters", lambda letter: letter)
    letters.unary(later, bound=bound, name="later").capture("letters")
    with tw.run(flow, workers=2, engine="local") as job:
        with job.input("letters") as handle:
            for epoch in range(4):
                handle.advance_to(epoch)
                handle.send(["a"])
                handle.end_substream("a")
        job.wait(DEADLINE_S)
        assert sorted((entry.time, *entry.batch) for entry in job.captured("letters")) == [(n, "a") for n in range(4)]


def test_an_input_without_substreams_has_no_ends() -> None:
    """Beside one with a firm bound, too."""

    def build(context: Any) -> Any:
        def schedule(left: Any, right: Any, output: Any) -> None:
            for port in (left, right):
                for token, batch in port:
                    output.send(token, batch)
            assert not list(right.ended)
            assert set(left.ended) <= {1, 2}

        return schedule

    flow = tw.Dataflow("plain")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    walks.binary(flow.input("plain"), build, bound="firm", name="both").capture("both")
    with tw.run(flow, engine="local") as job:
        with job.input("plain") as plain:
            plain.send([(0, 0)])
        play(job, [(0, [(1, 5), (2, 6)], [1])])
        assert sorted(rows(job, "both")) == [(0, 0), (1, 5), (2, 6)]


def test_what_a_firm_bound_holds_is_said() -> None:
    """Who waits behind it is told that it is held, and why."""
    flow = tw.Dataflow("held")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    walks.unary(in_pieces([]), bound="firm", name="pieces").probe("pieces")
    with tw.run(flow, engine="local") as job:
        handle = job.input("walks")
        handle.send([(1, 5), (2, 6)])
        handle.end_substream(2)
        handle.advance_to(1)
        with raises(tw.JobError):
            job.probe("pieces").wait_until(1)
        job.stop()


@pytest.mark.parametrize("bound", ["soft", "firm"])
def test_nan_is_one_key_in_a_loop(bound: Literal["soft", "firm"]) -> None:
    """It takes its turn, though it is not equal to itself."""
    events: list[Event] = []

    def body(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        moved = walks.unary(seen_by(events), bound=bound, name="watch").map(lambda walk: (walk[0], walk[1] // 2))
        return moved.filter(lambda walk: walk[1] > 0), moved

    flow = tw.Dataflow("nan")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    walks.iterate(body).collect_substream(lambda key, found: len(found)).capture("steps")
    with tw.run(flow, workers=2, engine="local") as job:
        with job.input("walks") as handle:
            handle.send([(key, 4) for key in ("a", math.nan, "b")])
            handle.end_substream("a", math.nan)
        job.wait(DEADLINE_S)
        assert rows(job, "steps") == [3, 3, 3]
        assert_nothing_left(job)
    assert Counter(kind for worker, kind, _ in events if worker == 0)["end"] == 3
