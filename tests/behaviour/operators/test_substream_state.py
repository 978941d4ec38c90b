"""The state of substreams: tokens, calls, states; and the order in which their ends are told."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import tidewheel as tw
from tests.behaviour.operators.test_substreams import DEADLINE_S, Sessions, Walks, rest, rows, seen_by, sessions
from tests.kit.operators.harness import operator_settings
from tests.kit.operators.operator_case import number_of
from tests.waiting import eventually


def test_a_token_holds_its_substream_open() -> None:
    """Whoever keeps the token of a key has all downstream wait for what it may still send, of that key only."""
    held: dict[Any, Any] = {}

    def build(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for lent, batch in input:
                held[lent.key] = (lent.retain(output), batch)
            for key in [key for key in held if key in released]:
                token, batch = held.pop(key)
                with token.delayed(token.time + 2) as later:
                    token.discard()
                    assert later.key == key
                    output.send(later, batch)

        activators.append(context.activator)
        return schedule

    released: set[str] = set()
    activators: list[Any] = []
    flow = tw.Dataflow("held")
    words = flow.input("words").substreams("words", lambda word: word[0]).unary(build, name="hold")
    words.collect_substream(lambda key, rows: (key, rows)).capture("words")
    with tw.run(flow, engine="local") as job:
        job.input("words").send(["ab", "bc", "ac"])
        job.input("words").end_substream("a", "b")
        job.input("words").close()
        while job.run_round():  # type: ignore[attr-defined]
            pass
        assert rows(job, "words") == []
        released.add("b")
        activators[0]()
        while job.run_round():  # type: ignore[attr-defined]
            pass
        assert job.captured("words") == [tw.types.Captured(2, [("b", ["bc"])])]
        released.add("a")
        activators[0]()
        job.wait(DEADLINE_S)
        assert rows(job, "words") == [("b", ["bc"]), ("a", ["ab", "ac"])]


def test_a_substream_is_open_while_a_call_for_it_is_awaited() -> None:
    """Each answers when its own calls are done, not those of others."""
    released: dict[int, threading.Event] = {key: threading.Event() for key in range(2)}

    async def wait(number: int) -> int:
        await asyncio.to_thread(released[number % 2].wait, DEADLINE_S)
        return number

    flow = tw.Dataflow("awaited")
    numbers = flow.input("numbers").substreams("parities", lambda n: n % 2).map_async(wait)
    numbers.collect_substream(lambda key, numbers: (key, sorted(numbers))).capture("sums")
    with tw.run(flow, engine="local") as job:
        with job.input("numbers") as handle:
            handle.send([0, 1, 2, 3])
            handle.end_substream(0, 1)
        released[1].set()

        assert eventually(lambda: not job.run_round() and rows(job, "sums") == [(1, [1, 3])])  # type: ignore[attr-defined]
        released[0].set()
        job.wait(DEADLINE_S)
        assert rows(job, "sums") == [(1, [1, 3]), (0, [0, 2])]


def test_a_notificator_tells_of_each_substream_at_each_time() -> None:
    """What is waited for is a time of a substream; its token sends as part of that, and holds nothing else open."""

    def build(context: Any) -> Any:
        notificator = context.notificator()
        kept: dict[Any, list[int]] = {}

        def schedule(input: Any, output: Any) -> None:
            for lent, batch in input:
                kept.setdefault((lent.time, lent.key), []).extend(batch)
                notificator.notify_at(lent)
            for token in notificator.ready(input):
                output.send(token, [(token.key, sorted(kept.pop((token.time, token.key))))])

        return schedule

    flow = tw.Dataflow("sorted")
    numbers = flow.input("numbers").substreams("rests", rest).unary(build, name="sort")
    numbers.collect_substream(lambda key, rows: (key, rows)).capture("sorted")
    with tw.run(flow, engine="local") as job:
        with job.input("numbers") as handle:
            for epoch in range(2):
                handle.advance_to(epoch)
                handle.send([5, 3, 2, 0])
        job.wait(DEADLINE_S)
        assert sorted(rows(job, "sorted")) == [(0, [(0, [0, 3])] * 2), (2, [(2, [2, 5])] * 2)]


@operator_settings(40)
@given(sessions(), st.integers(1, 3))
@example([(0, [], [0]), (1, [], [0]), (2, [(3, 1)], [0, 3]), (3, [(3, 1)], [0, 3])], 1)
def test_state_goes_with_its_substream(feed: Sessions, workers: int) -> None:
    """States of a key begin anew in each substream, whose epochs are processed in order; in the end there is none."""
    flow = tw.Dataflow("sums")
    divided = flow.input("numbers").substreams("sums", lambda row: row[0]).exchange(lambda row: row[1])
    summed = divided.stateful_map(
        lambda row: row[1] % 3,
        start=int,
        step=lambda s, row: (s + row[1], (*row, s + row[1])),
        order=lambda row: row[1],
        scope="substream",
    )
    summed.capture("sums")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("numbers") as handle:
            for epoch, sent, ended in feed:
                handle.advance_to(epoch)
                handle.send(sent)
                handle.end_substream(*ended)
        job.wait(DEADLINE_S)
        states: dict[tuple[int, int], int] = {}
        expected: Counter[Any] = Counter()
        for epoch, sent, ended in feed:
            for key, number in sorted(sent, key=lambda row: row[1]):
                states[key, number % 3] = states.get((key, number % 3), 0) + number
                expected[epoch, (key, number, states[key, number % 3])] += 1
            states = {place: state for place, state in states.items() if place[0] not in ended}
        assert Counter((entry.time, row) for entry in job.captured("sums") for row in entry.batch) == expected
        for core in job._cores:  # type: ignore[attr-defined]
            (instance,) = (one for one in core._instances if one.name == "stateful_map")
            assert {name: kept for name, kept in instance.kept.states.items() if kept} == {}


PREDICATES: dict[str, Callable[[Any], bool]] = {
    "small": lambda record: number_of(record) < 10,
    "even": lambda record: number_of(record) % 2 == 0,
    "none": lambda record: False,
}


@operator_settings(30)
@given(st.lists(st.lists(st.integers(0, 30), max_size=5), max_size=4), st.booleans(), st.integers(1, 3))
def test_predicates_may_overlap(batches: list[list[int]], is_input: bool, workers: int) -> None:
    """Each has all of its records; one that never had any has ended, too; what belongs to none goes on by itself."""
    flow = tw.Dataflow("named")
    numbers: tw.Stream[Any] = flow.input("numbers")
    stream = numbers if is_input else numbers.map(lambda number: {"n": number})
    divided = stream.substreams("named", predicates=PREDICATES)
    divided.collect_substream(lambda name, found: (name, sorted(map(number_of, found)))).capture("collected")
    events: list[Any] = []
    divided.unary(seen_by(events), bound="soft", name="watch").map(number_of).capture("all")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("numbers") as handle:
            for batch in batches:
                handle.send(batch)
            if is_input:
                handle.end_substream("even")
        job.wait(DEADLINE_S)
        everything = [number for batch in batches for number in batch]
        wanted = {name: sorted(filter(PREDICATES[name], everything)) for name in PREDICATES}
        assert dict(rows(job, "collected")) == {name: found for name, found in wanted.items() if found}
        rest = [number for number in everything if not any(holds(number) for holds in PREDICATES.values())]
        assert sorted(rows(job, "all")) == sorted([*rest, *(n for found in wanted.values() for n in found)])
        for worker in range(workers):
            told = sorted(key for at, kind, key in events if at == worker and kind == "end")
            assert told == sorted(PREDICATES)


def test_ends_are_told_in_the_order_of_closing() -> None:
    """With ordered=True, though what was closed first takes longest."""
    for ordered in (False, True):
        events: list[Any] = []
        flow = tw.Dataflow("ordered")
        walks = flow.input("walks").substreams("walks", lambda walk: walk[0]).iterate(Walks.body)
        walks.unary(seen_by(events), bound="soft", ordered=ordered, name="watch").capture("walks")
        with tw.run(flow, workers=2, engine="local") as job:
            with job.input("walks") as handle:
                handle.send([("long", 1 << 30), ("short", 1), ("medium", 1 << 10)])
                for key in ("long", "short", "medium"):
                    handle.end_substream(key)
            job.wait(DEADLINE_S)
        ends = [key for worker, kind, key in events if worker == 1 and kind == "end"]
        assert ends == (["long", "short", "medium"] if ordered else ["short", "medium", "long"])
