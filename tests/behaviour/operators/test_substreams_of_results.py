"""Divisions into substreams of the results of another division."""

from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.behaviour.operators.test_substreams import assert_nothing_left, seen_by
from tests.kit.messages import raises

DEADLINE_S = 20.0
SEEDS = range(8)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("bound", ["soft", "firm"])
def test_results_of_substreams_are_divided_again(workers: int, bound: Any) -> None:
    """Sessions are counted when they end, and users when all of their sessions have; each with its own ends."""
    for seed in SEEDS:
        random = Random(seed)
        events: list[Any] = []
        flow = tw.Dataflow("two")
        hits = flow.input("hits").substreams("sessions", key=lambda hit: hit[:2])
        sessions = hits.exchange(lambda hit: hit[2]).collect_substream(lambda session, hits: (session[0], len(hits)))
        users = sessions.without_substreams().substreams("users", key=lambda session: session[0])
        seen = users.unary(seen_by(events), exchange=lambda session: session[0], bound=bound, name="seen")
        seen.collect_substream(lambda user, counts: (user, sorted(n for _, n in counts))).capture("users")
        expected: dict[str, list[int]] = {}
        with tw.run(flow, workers=workers, engine="local") as job:
            with job.input("hits") as handle:
                for epoch in range(3):
                    handle.advance_to(epoch)
                    for user in "abc":
                        count = random.randint(1, 4)
                        expected.setdefault(user, []).append(count)
                        handle.send([(user, epoch, number) for number in range(count)])
                    if random.random() < 0.7:
                        handle.end_substream(*((user, epoch) for user in "abc"))
            job.wait(DEADLINE_S)
            found = dict(row for entry in job.captured("users") for row in entry.batch)
            assert_nothing_left(job)
        assert found == {user: sorted(counts) for user, counts in expected.items()}, f"seed {seed}"
        assert {key for _, kind, key in events if kind == "end"} == set("abc"), f"seed {seed}"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("bound", ["soft", "firm"])
def test_what_was_divided_otherwise_may_come_back(workers: int, bound: Any) -> None:
    """Into a stream of the substreams from which it was taken: to these it does not belong any more."""
    events: list[Any] = []
    rows = [(key, number) for number in range(6) for key in "ab"]
    flow = tw.Dataflow("back")
    divided = flow.input("rows").substreams("keys", lambda row: row[0])
    numbers = divided.without_substreams().substreams("numbers", lambda row: row[1] % 3)
    seen = numbers.unary(seen_by(events), bound=bound, name="seen").without_substreams()
    divided.concat(seen).collect_substream(lambda key, rows: (key, len(rows))).capture("counts")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("rows") as handle:
            handle.send(rows)
            handle.end_substream("a")
            handle.advance_to(1)
            handle.send([("b", 7)])
        job.wait(DEADLINE_S)
        found = sorted(row for entry in job.captured("counts") for row in entry.batch)
        assert_nothing_left(job)
    assert found == [("a", 6), ("b", 7)]
    assert {key for _, kind, key in events if kind == "end"} == {0, 1, 2}


def test_substreams_of_two_divisions_that_meet_are_refused() -> None:
    """Nobody could say whose ends these are."""
    flow = tw.Dataflow("meeting")
    numbers = flow.input("numbers").map(abs)
    halves = numbers.substreams("halves", lambda n: n % 2)
    both = halves.concat(numbers.substreams("thirds", lambda n: n % 3))
    both.collect_substream(lambda key, rows: key).capture("keys")
    with raises(tw.GraphError):
        tw.run(flow, engine="local")
