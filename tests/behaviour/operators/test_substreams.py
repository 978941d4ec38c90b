"""Substreams: dividing a stream, following its parts, and being told of their ends."""

import math
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import Bags, Feed, operator_settings
from tests.kit.operators.operator_case import number_of
from tidewheel.runtime.worker.worker_core import WorkerCore

DEADLINE_S = 20.0


def rest(record: Any) -> int:
    return number_of(record) % 3


def collected(feed: Feed) -> Bags:
    """Return what is collected of substreams that end with the input: at the time of their last record."""
    numbers, latest = defaultdict(list), {}
    for time, batch in feed:
        for number in batch:
            numbers[number % 3].append(number)
            latest[number % 3] = time
    found: Bags = {}
    for key, time in latest.items():
        found.setdefault(time, Counter())[key, tuple(sorted(numbers[key]))] += 1
    return found


class Walks:
    """Random walks: each record halves until nothing is left, at a worker that its number decides, round a loop."""

    @staticmethod
    def body(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        moved = walks.exchange(lambda walk: walk[1]).map(lambda walk: (walk[0], walk[1] // 2))
        return moved.filter(lambda walk: walk[1] > 0), moved

    @staticmethod
    def steps(number: int) -> int:
        return number.bit_length()


def seen_by(events: list[Any]) -> Callable[[Any], Any]:
    """Return the build function of an operator that notes what it gets and is told, by worker."""

    def build(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                events.append((context.worker, "record", token.key))
                output.send(token, batch)
            events.extend((context.worker, "end", key) for key in input.ended)

        return schedule

    return build


Sessions = list[tuple[int, list[tuple[int, int]], list[int]]]
"""Epochs with the (key, number) that are sent at each, and the keys that end after them."""


@st.composite
def sessions(draw: st.DrawFn) -> Sessions:
    """Any keys that come, end, and in later epochs come again."""
    found = []
    for epoch in range(draw(st.integers(1, 4))):
        sent = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=8))
        ended = draw(st.lists(st.integers(0, 5), unique=True, max_size=4))
        found.append((epoch, sent, ended))
    return found


def lengths_of(feed: Sessions) -> Counter[tuple[int, int]]:
    """Return how many steps the walks of each substream take together, by plain Python."""
    lives: dict[int, int] = {}
    ended: Counter[tuple[int, int]] = Counter()
    for _, sent, ends in feed:
        for key, number in sent:
            lives[key] = lives.get(key, 0) + Walks.steps(number)
        for key in ends:
            if key in lives:
                ended[key, lives.pop(key)] += 1
    return ended + Counter(lives.items())


@operator_settings(60)
@given(sessions(), st.integers(1, 4))
def test_a_result_for_each_substream_when_all_of_it_has_come_out_of_a_loop(feed: Sessions, workers: int) -> None:
    """What is collected is what a batch computation says, also where a key is used again in a later epoch.

    Nothing of a substream comes to an operator after it was told of its end, on no worker; it is told of each end, as
    often as the substream has lived, whether or not it has seen something of it.
    """
    events: list[Any] = []
    flow = tw.Dataflow("walks")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0]).iterate(Walks.body)
    watched = walks.unary(seen_by(events), bound="soft", name="watch")
    watched.collect_substream(lambda key, steps: (key, len(steps))).capture("lengths")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("walks") as handle:
            for epoch, sent, ended in feed:
                handle.advance_to(epoch)
                for walk in sent:
                    handle.send([walk])
                handle.end_substream(*ended)
        job.wait(DEADLINE_S)
        assert Counter(row for entry in job.captured("lengths") for row in entry.batch) == lengths_of(feed)
        assert_nothing_left(job)
    assert_soft(events, feed, workers)


def lives_of(feed: Sessions) -> Counter[int]:
    """Return how many substreams each key has had, by plain Python; all end where the stream does."""
    lives: Counter[int] = Counter()
    live: set[int] = set()
    for _, sent, ended in feed:
        live.update(key for key, _ in sent)
        lives.update(ended)
        live.difference_update(ended)
    lives.update(live)
    return lives


def assert_soft(events: list[Any], feed: Sessions, workers: int) -> None:
    """See that ends are told to every worker for every life of a key, and records come in between."""
    lives = lives_of(feed)
    for worker in range(workers):
        told = Counter(key for at, kind, key in events if at == worker and kind == "end")
        assert told == lives, f"worker {worker} was told of other ends"
    left = {key: Counter(dict.fromkeys(range(workers), many)) for key, many in lives.items()}
    for worker, kind, key in events:
        if kind == "end":
            left[key][worker] -= 1
        else:
            assert left[key][worker] > 0, f"a record of {key} came to worker {worker} after its end"


def assert_nothing_left(job: tw.types.Job) -> None:
    """See that a job of the local engine remembers no substream."""
    for core in job._cores:  # type: ignore[attr-defined]
        books = core._substreams.books
        for book in books._books.values():
            assert not book.counts
            assert not book.closing
            assert not book.due
        assert not core._substreams._early
        if books.view is not None:
            assert all(len(tracker) == 0 for tracker in books.view._trackers.values())
        for gate in core._substreams.gates:
            assert all(closed.is_over for closed in gate._closed.values())
            assert not gate._open
        assert not any(message for port in core._ports.values() for message in (*port.queue, *port.held))


def test_inputs_of_two_declarations_are_told_of_their_own_ends() -> None:
    """Each once on each worker, though the keys are the same."""
    flow = tw.Dataflow("two declarations")
    one = flow.input("one").substreams("ones", lambda record: record[0])
    other = flow.input("other").substreams("others", lambda record: record[0])
    told: list[Any] = []

    def build(context: Any) -> Any:
        def schedule(ones: Any, others: Any, output: Any) -> None:
            for token, batch in (*ones, *others):
                output.send(token, batch)
            told.extend((context.worker, "ones", key) for key in ones.ended)
            told.extend((context.worker, "others", key) for key in others.ended)

        return schedule

    one.binary(other, build, exchange=(rest_of_pair, rest_of_pair), bound="soft", name="both").capture("both")
    with tw.run(flow, workers=2, engine="local") as job:
        for name in ("one", "other"):
            with job.input(name) as handle:
                handle.send([("x", 1)])
                handle.end_substream("x")
        job.wait(DEADLINE_S)
    assert sorted(told) == [(worker, name, "x") for worker in range(2) for name in ("ones", "others")]


def rest_of_pair(record: tuple[str, int]) -> int:
    return record[1]


@pytest.mark.parametrize("key", [math.nan, ("a", math.nan), None, b"bytes", ("a", 1.5)], ids=repr)
def test_keys_are_found_again_in_other_processes(key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Envelopes are pickled on their way, as they are on Ray; NaN is one key all the same."""
    receive = WorkerCore.receive

    def receive_pickled(core: WorkerCore, envelope: Any) -> None:
        receive(core, pickle.loads(pickle.dumps(envelope)))

    monkeypatch.setattr(WorkerCore, "receive", receive_pickled)
    flow = tw.Dataflow("keys")
    divided = flow.input("rows").substreams("keys", lambda row: row[0]).exchange(lambda row: row[1])
    divided.collect_substream(lambda found, rows: len(rows)).capture("counts")
    with tw.run(flow, workers=3, engine="local") as job:
        with job.input("rows") as handle:
            for number in range(6):
                handle.send([(key, number), ("other", number)])
            handle.end_substream(key, "other")
        job.wait(DEADLINE_S)
        assert rows(job, "counts") == [6, 6]
        assert_nothing_left(job)


def test_memory_is_of_live_substreams_only() -> None:
    """Where epochs pass, gates forget what ended in them; a window of live keys is all that is ever remembered."""
    flow = tw.Dataflow("many")
    flow.input("numbers").substreams("pairs", lambda n: n // 2).collect_substream(lambda key, rows: key).capture("keys")
    with tw.run(flow, workers=2, engine="local") as job:
        most = 0
        with job.input("numbers") as handle:
            for epoch in range(50):
                handle.advance_to(epoch)
                handle.send([2 * epoch, 2 * epoch + 1])
                handle.end_substream(epoch)
                while job.run_round():  # type: ignore[attr-defined]
                    pass
                gates = [gate for core in job._cores for gate in core._substreams.gates]  # type: ignore[attr-defined]
                most = max(most, *map(len, gates))
        job.wait(DEADLINE_S)
        assert sorted(rows(job, "keys")) == list(range(50))
        assert most <= 2
        assert_nothing_left(job)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_operator_before_promises_ends(workers: int) -> None:
    """By context.end_substream and by last=, records and ends of a key meet on its owner, in order."""

    def build(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                for key, number in batch:
                    if number is None:
                        context.end_substream(token, key)
                    else:
                        output.send(token, [(key, number)])

        return schedule

    feed = [(key, number) for number in range(3) for key in "abc"]
    flow = tw.Dataflow("marks")
    read = flow.input("lines").unary(build, name="read")
    sums = read.substreams("marked", lambda line: line[0]).collect_substream(lambda key, rows: (key, len(rows)))
    sums.probe("sums").capture("sums")
    last = read.map(tuple).substreams("last", lambda line: line[0], last=lambda line: line[1] == 1)
    last.filter(lambda line: line[1] < 2).collect_substream(lambda key, rows: (key, len(rows))).capture("lasts")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("lines") as handle:
            handle.send([*feed[:6], ("a", None), ("b", None)], worker=0)
            handle.advance_to(1)
            while job.run_round():  # type: ignore[attr-defined]
                pass
            assert sorted(rows(job, "sums")) == [("a", 2), ("b", 2)], "told while the input goes on"
            assert sorted(rows(job, "lasts")) == [("a", 2), ("b", 2), ("c", 2)]
            handle.send(feed[6:], worker=0)
        job.wait(DEADLINE_S)
        assert sorted(rows(job, "sums")) == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("workers", [1, 3])
def test_ends_that_waited_for_an_earlier_use_of_their_keys_keep_their_order(workers: int) -> None:
    """As ordered ends are told in the order in which they were promised, also where all is sent at once."""
    events: list[Any] = []
    flow = tw.Dataflow("waiting")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    walks.unary(seen_by(events), bound="soft", ordered=True, name="watch").capture("walks")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("walks") as handle:
            for epoch in range(3):
                handle.advance_to(epoch)
                handle.send([(key, epoch) for key in "abcdef"])
                handle.end_substream(*"abcdef")
        job.wait(DEADLINE_S)
    for worker in range(workers):
        assert [key for at, kind, key in events if at == worker and kind == "end"] == list("abcdef") * 3


def rows(job: tw.types.Job, name: str) -> list[Any]:
    return [row for entry in job.captured(name) for row in entry.batch]
