"""Dead letters: each record at which a function raises, once and at its time; all others as if it had never come."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import (
    ARRAYS,
    DEADLINE_S,
    LISTS,
    SAMPLE,
    TABLES,
    Bags,
    Feed,
    Kind,
    feeds,
    operator_settings,
    send,
    settle,
)
from tests.kit.operators.operator_case import number_of, plain, plain_bags
from tidewheel.operators.base.setting_aside import all_results_of, results_of, those_for_which, whole_batches

Describe = Callable[..., tw.Stream[Any]]

SCHEMA = pa.schema({"n": pa.int8()})


class FiveError(Exception):
    """What a function raises at a bad number."""


def good(record: Any) -> int:
    """Return the number of a record that is no multiple of five."""
    number = number_of(record)
    if number % 5 == 0:
        raise FiveError(f"{number} is one")
    return number


async def good_later(record: Any) -> int:
    await asyncio.sleep(0)
    return good(record)


def windows(stream: tw.Stream[Any], **options: Any) -> tw.Stream[Any]:
    made = stream.window(
        tw.TumblingWindows(1000), key=lambda _: 0, at=lambda record: 100 + good(record), finish=len, **options
    )
    made.late.ignore()
    return made.results


def nothing_of(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    return stream.filter(lambda _: False, name="nothing")


def intervals(stream: tw.Stream[Any], on: Any, at: Any, other_at: Any, **options: Any) -> tw.Stream[Any]:
    made = stream.interval_join(
        stream, on, number_of, at=at, other_at=other_at, within=(-1000, 1000), lateness=1000, **options
    )
    made.late.ignore()
    made.other_late.ignore()
    return made.results


USES: dict[str, Describe] = {
    "map": lambda stream, **options: stream.map(good, **options),
    "flat_map": lambda stream, **options: stream.flat_map(lambda one: (good(one) for _ in range(2)), **options),
    "filter": lambda stream, **options: stream.filter(lambda record: good(record) > 3, **options),
    "inspect": lambda stream, **options: stream.inspect(good, **options),
    "map_async": lambda stream, **options: stream.map_async(good_later, **options),
    "map_async, ordered": lambda stream, **options: stream.map_async(
        good_later, ordered=True, concurrency=2, retry=tw.Retry(attempts=2, first_pause_s=0), **options
    ),
    "aggregate, key": lambda stream, **options: stream.aggregate(
        lambda record: good(record) % 3, start=int, add=lambda total, record: total + number_of(record), **options
    ),
    "aggregate, add": lambda stream, **options: stream.aggregate(
        lambda record: number_of(record) % 3, start=int, add=lambda total, record: total + good(record), **options
    ),
    "aggregate, combined": lambda stream, **options: stream.aggregate(
        lambda record: number_of(record) % 3,
        start=int,
        add=lambda total, record: total + good(record),
        combine=int.__add__,
        **options,
    ),
    "accumulate, key": lambda stream, **options: stream.accumulate(
        lambda record: good(record) % 3, start=int, add=lambda total, record: total + number_of(record), **options
    ),
    "accumulate, add": lambda stream, **options: stream.accumulate(
        lambda record: number_of(record) % 3, start=int, add=lambda total, record: total + good(record), **options
    ),
    "accumulate, finish": lambda stream, **options: stream.accumulate(
        lambda record: number_of(record) % 3,
        start=int,
        add=lambda total, record: total + good(record),
        finish=lambda key, total: (key, -total),
        **options,
    ),
    "stateful_map": lambda stream, **options: stream.stateful_map(
        lambda record: number_of(record) % 3,
        start=int,
        step=lambda last, record: (good(record), (last, good(record))),
        order=number_of,
        **options,
    ),
    "stateful_map, order": lambda stream, **options: stream.stateful_map(
        lambda record: number_of(record) % 3,
        start=int,
        step=lambda last, record: (number_of(record), (last, number_of(record))),
        order=good,
        **options,
    ),
    "window": windows,
    "join": lambda stream, **options: stream.join(stream, good, number_of, **options),
    "join, other": lambda stream, **options: stream.join(stream, number_of, good, **options),
    "join_across_epochs": lambda stream, **options: stream.join_across_epochs(stream, good, number_of, **options),
    "cogroup": lambda stream, **options: stream.cogroup(nothing_of(stream), good, **options).map(
        lambda group: (group[0], sorted(map(number_of, group[1])))
    ),
    "interval_join": lambda stream, **options: intervals(stream, good, number_of, number_of, **options),
    "interval_join, at": lambda stream, **options: intervals(stream, number_of, good, number_of, **options),
    "interval_join, other_at": lambda stream, **options: intervals(stream, number_of, number_of, good, **options),
}
"""Uses of each operator that takes dead letters, whose function raises at multiples of five."""

by_use = pytest.mark.parametrize("describe", USES.values(), ids=USES)


def run(feed: Feed, describe: Describe, kind: Kind = LISTS, workers: int = 1) -> tuple[Bags, dict[Any, Counter[Any]]]:
    """Return the results, and the letters' records by time."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters("letters")
    describe(flow.input("numbers"), dead_letters=letters).capture("results")
    letters.capture("letters")
    with tw.run(flow, workers=workers, engine="local") as job:
        send(job, "numbers", feed, kind)
        job.wait(DEADLINE_S)
        return plain_bags(job.captured("results")), letters_of(job)


def letters_of(job: tw.types.Job) -> dict[Any, Counter[Any]]:
    """Return the letters' records by time; see that each has its error."""
    found: dict[Any, Counter[Any]] = {}
    for captured in job.captured("letters"):
        for letter in captured.batch:
            assert letter.error == "FiveError"
            assert letter.message == f"{number_of(letter.record)} is one"
            assert ", in good" in letter.traceback
            found.setdefault(captured.time, Counter())[plain(letter.record)] += 1
    return found


def without_letters(feed: Feed, describe: Describe, kind: Kind) -> Bags:
    """Return the results for the good numbers alone, without dead letters."""
    flow = tw.Dataflow("test")
    describe(flow.input("numbers")).capture("results")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(time, [n for n in numbers if n % 5]) for time, numbers in feed], kind)
        job.wait(DEADLINE_S)
        return plain_bags(job.captured("results"))


def bad_of(feed: Feed) -> dict[Any, Counter[Any]]:
    found: dict[Any, Counter[Any]] = {}
    for time, numbers in feed:
        if bad := [n for n in numbers if n % 5 == 0]:
            found.setdefault(time, Counter()).update(bad)
    return found


def check(describe: Describe, feed: Feed, kind: Kind, workers: int) -> None:
    results, letters = run(feed, describe, kind, workers)
    assert letters == bad_of(feed)
    assert results == without_letters(feed, describe, kind)


@by_use
def test_each_bad_record_is_a_letter_and_the_others_do_not_notice(describe: Describe) -> None:
    """Lists, tables and arrays, on one to three workers, and any numbers."""
    for kind in (LISTS, TABLES, ARRAYS):
        check(describe, SAMPLE, kind, 2)

    @operator_settings(max_examples=5)
    @given(feeds(), st.sampled_from((LISTS, TABLES)), st.sampled_from((1, 3)))
    def holds(feed: Feed, kind: Kind, workers: int) -> None:
        check(describe, feed, kind, workers)

    holds()


@by_use
def test_a_letter_has_the_name_of_its_operator(describe: Describe) -> None:
    """Not that of one of the parts that the operator has."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    describe(flow.input("numbers"), dead_letters=letters, name="mine").ignore()
    letters.map(lambda letter: letter.where).capture("letters")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(0, [5])])
        job.wait(DEADLINE_S)
        assert [captured.batch for captured in job.captured("letters")] == [["mine"]]


@by_use
def test_without_dead_letters_the_job_fails(describe: Describe) -> None:
    """So a test above that diverts nothing would be found."""
    flow = tw.Dataflow("test")
    describe(flow.input("numbers")).capture("results")

    def run_to_end() -> None:
        with tw.run(flow, engine="local") as job:
            send(job, "numbers", [(0, [5, 8])])
            job.wait(DEADLINE_S)

    with pytest.raises(tw.JobError, match="FiveError"):
        run_to_end()


@pytest.mark.parametrize("cut", [0, 2, 5])
@by_use
def test_a_snapshot_has_a_record_or_its_letter(describe: Describe, cut: int, tmp_path: Path) -> None:
    """The job is cut at some batch, and goes on with another number of workers: results and letters come once."""

    def begin(workers: int) -> tw.types.Job:
        flow = tw.Dataflow("test")
        letters = flow.dead_letters("letters")
        describe(flow.input("numbers"), dead_letters=letters).capture("results")
        letters.capture("letters")
        return tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=1000))

    def send_on(job: tw.types.Job, until: int) -> None:
        handle = job.input("numbers")
        for time, numbers in batches[handle.position.batches : until]:
            handle.advance_to(time)
            handle.send(numbers)

    batches = [(time, numbers) for time, numbers in SAMPLE if numbers]
    with begin(2) as job:
        send_on(job, cut)
        job.snapshot()
        send_on(job, cut + 2)
        settle(job)
        job.stop()
    with begin(3) as job:
        send_on(job, len(batches))
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert letters_of(job) == bad_of(SAMPLE)
        assert plain_bags(job.captured("results")) == without_letters(SAMPLE, describe, LISTS)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_record_that_cannot_be_added_to_the_first_one_is_a_letter(workers: int) -> None:
    """Without a start, on whichever workers the records of a key are."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    added = (
        flow.input("records")
        .rebalance()
        .aggregate(lambda r: type(r).__name__, add=lambda a, b: a + b, dead_letters=letters)
    )
    added.capture("results")
    letters.map(lambda letter: letter.error).capture("letters")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("records") as records:
            for record in (1, None, 2, None, 3, None, 4):
                records.send([record])
        job.wait(DEADLINE_S)
        assert sorted(
            entry for captured in job.captured("results") for entry in captured.batch if entry[0] == "int"
        ) == [("int", 10)]
        assert [error for captured in job.captured("letters") for error in captured.batch] == ["TypeError"] * 2


# ---------------------------------------------------------------------- loops, substreams, batches


def test_letters_of_a_loop_have_the_epoch_of_their_record() -> None:
    """Of any round, and of a loop within a loop."""

    def body(numbers: tw.Stream[int], **options: Any) -> tw.Stream[int]:
        return numbers.iterate(
            lambda inner: inner.map(lambda n: good(n) - 1, **options), max_rounds=2, name="inner"
        ).filter(lambda n: n > 0)

    flow = tw.Dataflow("test")
    letters = flow.dead_letters("letters")
    numbers = flow.input("numbers")
    numbers.iterate(lambda n: body(n, dead_letters=letters), max_rounds=9).capture("results")
    letters.capture("letters")
    with tw.run(flow, workers=2, engine="local") as job:
        send(job, "numbers", [(0, [3, 8]), (2, [7, 5])])
        job.wait(DEADLINE_S)
        assert letters_of(job) == {0: Counter({0: 1, 5: 1}), 2: Counter({5: 2})}
        (where,) = {letter.where for captured in job.captured("letters") for letter in captured.batch}
    assert where == "iterate/inner/map"


def test_letters_of_a_divided_stream_belong_to_no_substream() -> None:
    """So they may be read with those of other streams, and each operator works on its substreams as before."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters("letters")
    numbers = flow.input("numbers")
    divided = numbers.substreams("parity", lambda n: n % 2)
    stepped = divided.map(good, dead_letters=letters).stateful_map(
        bool, start=int, step=lambda last, n: (n, good(n + 1)), scope="substream", dead_letters=letters
    )
    stepped.collect_substream(lambda key, found: (key, sorted(found))).capture("results")
    divided.without_substreams().map(good, dead_letters=letters, name="other").ignore()
    letters.map(lambda letter: (letter.where, number_of(letter.record))).capture("letters")
    with tw.run(flow, workers=2, engine="local") as job:
        send(job, "numbers", [(0, [1, 2, 5, 4]), (1, [9, 6])])
        job.wait(DEADLINE_S)
        results = [record for captured in job.captured("results") for record in captured.batch]
        found = Counter(letter for captured in job.captured("letters") for letter in captured.batch)
    assert sorted(results) == [(0, [3, 7]), (1, [2])]
    assert found == {("map", 5): 1, ("other", 5): 1, ("stateful_map", 4): 1, ("stateful_map", 9): 1}


@pytest.mark.parametrize(
    "describe",
    [
        lambda stream, **options: stream.map_batches(lambda batch: batch.cast(SCHEMA), **options),
        lambda stream, **options: stream.filter(pc.divide(pc.scalar(1), pc.field("n")) == 1, **options),
    ],
    ids=["map_batches", "expression"],
)
def test_a_function_of_a_batch_sets_the_batch_aside(describe: Describe) -> None:
    """The letter has the table itself."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    describe(flow.input("numbers"), dead_letters=letters).capture("results")
    letters.capture("letters")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(0, [1, 300, 0]), (1, [1])], TABLES)
        job.wait(DEADLINE_S)
        assert [captured.time for captured in job.captured("results")] == [1]
        [captured] = job.captured("letters")
        [letter] = captured.batch
    assert (captured.time, letter.record.to_pydict()) == (0, {"n": [1, 300, 0]})
    assert letter.error in {"ArrowInvalid", "ValueError"}


# ---------------------------------------------------------------------- the letters themselves


class Unpicklable:
    """A record that cannot leave its process."""

    def __reduce__(self) -> Any:
        raise TypeError("it stays here")

    def __repr__(self) -> str:
        return "x" * 10_000


def test_a_letter_can_be_pickled_and_is_limited() -> None:
    """A record that cannot be pickled is its repr; message and traceback have a limit."""

    def refuse(record: Any) -> None:
        raise ValueError("y" * 10_000)

    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    flow.source("records", tw.IterableSource([[(0, [Unpicklable()])]])).map(refuse, dead_letters=letters)
    letters.capture("letters")
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
        [captured] = job.captured("letters")
        [letter] = captured.batch
    assert letter.record == "x" * 4000
    assert letter.message == "y" * 4000
    assert len(letter.traceback) == 4000


class WordlessError(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise LookupError


class Wordless(int):
    """A number without a text, that cannot leave its process."""

    def __reduce__(self) -> Any:
        raise TypeError("it stays here")

    def __repr__(self) -> str:
        raise LookupError


ONE_ERROR = WordlessError()


def refuse_all(_: Any) -> int:
    raise ONE_ERROR


async def refuse_all_later(_: Any) -> int:
    raise ONE_ERROR


def refuse_to_add(_: int, __: Any) -> tuple[int, int]:
    raise ONE_ERROR


REFUSING: dict[str, Describe] = {
    "map": lambda stream, **options: stream.map(refuse_all, **options),
    "map_batches": lambda stream, **options: stream.map_batches(refuse_all, **options),
    "map_async": lambda stream, **options: stream.map_async(
        refuse_all_later, concurrency=1, retry=tw.Retry(attempts=2, first_pause_s=0), **options
    ),
    "aggregate": lambda stream, **options: stream.aggregate(bool, start=int, add=refuse_to_add, **options),
    "accumulate": lambda stream, **options: stream.accumulate(bool, start=int, add=refuse_to_add, **options),
    "stateful_map": lambda stream, **options: stream.stateful_map(bool, start=int, step=refuse_to_add, **options),
}


@pytest.mark.parametrize("describe", REFUSING.values(), ids=REFUSING)
def test_a_letter_needs_no_text_and_an_error_may_be_raised_again_and_again(describe: Describe) -> None:
    """It does not fail the job, and the traceback of an error that is one object does not grow with each record."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    source = flow.source("records", tw.IterableSource([[(0, [Wordless(n)]) for n in range(1, 31)]]))
    describe(source, dead_letters=letters).ignore()
    letters.capture("letters")
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
        found = [letter for captured in job.captured("letters") for letter in captured.batch]
    assert {(one.record, one.error, one.message) for one in found} <= {
        (shown, "WordlessError", "<WordlessError, whose str raises LookupError>")
        for shown in ("<Wordless, whose repr raises LookupError>", "<list, whose repr raises LookupError>")
    }
    assert len(found) == 30
    assert all("in refuse_" in one.traceback for one in found)
    assert ONE_ERROR.__traceback__ is None
    assert not hasattr(ONE_ERROR, "__notes__")


def test_calls_that_raise_one_error_do_not_add_to_its_traceback() -> None:
    """Also if many are in progress, before any letter of theirs is made."""
    error, lengths = FiveError(), []

    async def refuse(_: int) -> int:
        lengths.append(len(list(walk_tb(error.__traceback__))))
        raise error

    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    flow.input("numbers").map_async(refuse, dead_letters=letters).ignore()
    letters.map(lambda letter: letter.traceback.count("in refuse")).capture("letters")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(0, list(range(200)))])
        job.wait(DEADLINE_S)
        assert [count for captured in job.captured("letters") for count in captured.batch] == [1] * 200
    assert max(lengths) == 0


def test_an_input_refuses_what_has_no_text() -> None:
    """The letter says of what type it is."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    flow.input("words", str, dead_letters=letters).ignore()
    letters.map(lambda letter: letter.message).capture("letters")
    with tw.run(flow, engine="local") as job:
        with job.input("words") as words:
            words.send(["a", Wordless(1)])
        job.wait(DEADLINE_S)
        assert [captured.batch for captured in job.captured("letters")] == [
            ["input 'words' has records of str, not Wordless: <Wordless, whose repr raises LookupError>"]
        ]


@pytest.mark.parametrize(
    ("divide", "results"),
    [
        (results_of(good), [1, 2]),
        (all_results_of(lambda n: [good(n)] * 2), [1, 1, 2, 2]),
        (those_for_which(good), [1, 2]),
        (whole_batches(lambda batch: list(map(good, batch))), []),
    ],
)
def test_what_is_pickled_to_a_worker_sets_the_same_aside(divide: Any, results: list[int]) -> None:
    """On Ray each worker has a copy of the function."""
    failed: list[Any] = []
    copied = cloudpickle.loads(cloudpickle.dumps(divide))
    assert copied([1, 5, 2], lambda record, error: failed.append(record)) == results
    assert failed in ([5], [[1, 5, 2]])


def test_the_letters_of_a_job_are_a_topic_that_another_job_reads() -> None:
    """There each record is tried again, by a function that was mended."""
    first, second = tw.Dataflow("first"), tw.Dataflow("second")
    letters = first.dead_letters()
    first.input("numbers").map(good, dead_letters=letters).capture("results")
    letters.publish("dead letters")
    second.from_topic("dead letters").map(lambda letter: letter.record).map(abs).capture("again")
    with tw.run(first, engine="local") as one, tw.run(second, engine="local") as other:
        one.topic("dead letters").wait_for_subscribers(1, timeout_s=10)
        send(one, "numbers", SAMPLE)
        other.wait(DEADLINE_S)
        assert plain_bags(other.captured("again")) == bad_of([(time, [abs(n) for n in ns]) for time, ns in SAMPLE])


def test_a_letter_may_itself_be_set_aside_elsewhere_but_not_go_round() -> None:
    """A function of letters whose own letters come back to it would be called for ever."""
    flow = tw.Dataflow("test")
    letters, others = flow.dead_letters(), flow.dead_letters("others")
    flow.input("numbers").map(good, dead_letters=letters).ignore()
    letters.map(lambda letter: good(letter.record), dead_letters=others, name="again").ignore()
    others.capture("letters")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(0, [5])])
        job.wait(DEADLINE_S)
        [captured] = job.captured("letters")
        assert (captured.batch[0].where, captured.batch[0].record.where) == ("again", "map")
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    letters.map(good, dead_letters=letters)
    with raises(tw.GraphError):
        tw.run(flow, engine="local")


def test_letters_that_nothing_reads_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """They would be lost in silence."""
    flow = tw.Dataflow("test")
    flow.input("numbers").map(good, dead_letters=flow.dead_letters("lost ones")).capture("results")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").close()
        job.wait(DEADLINE_S)
    assert "nothing reads what 'lost ones' sends" in caplog.text


def test_letters_of_another_dataflow_are_refused() -> None:
    """They could not get there."""
    other = tw.Dataflow("other").dead_letters()
    flow = tw.Dataflow("test")
    with raises(tw.GraphError):
        flow.input("numbers").map(good, dead_letters=other)
    with raises(tw.GraphError):
        flow.source("numbers", tw.RecordSource([1]), dead_letters=flow.dead_letters())


def test_a_description_that_fails_takes_its_letters_back() -> None:
    """A body of a loop that raises leaves nothing, so that a notebook's cell can run again."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()

    def body(numbers: tw.Stream[int], *, fails: bool) -> tw.Stream[int]:
        inner = numbers.map(good, dead_letters=letters)
        if fails:
            raise FiveError
        return inner

    numbers = flow.input("numbers")
    with pytest.raises(FiveError):
        numbers.iterate(lambda inner: body(inner, fails=True), max_rounds=1)
    numbers.iterate(lambda inner: body(inner, fails=False), max_rounds=1).capture("results")
    letters.capture("letters")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(0, [5, 1])])
        job.wait(DEADLINE_S)
        assert letters_of(job) == {0: Counter({5: 1})}


def test_a_drawing_shows_letters_as_no_way_back() -> None:
    """Though they are described before the operators that send them."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters("letters")
    flow.input("numbers").map(good, dead_letters=letters).capture("results")
    letters.capture("letters")
    assert "letters          <- map[1]\n" in flow.explain()
    assert "-.->" not in flow.to_mermaid()
    assert "stroke-dasharray" not in flow._repr_html_()


@by_use
def test_only_what_is_to_be_caught_is(describe: Describe) -> None:
    """Any other exception, such as that of a service that is away, fails the job as it would without letters."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters(catch=(LookupError, OSError))
    describe(flow.input("numbers"), dead_letters=letters).capture("results")
    letters.ignore()

    def run_to_end() -> None:
        with tw.run(flow, engine="local") as job:
            send(job, "numbers", [(0, [5, 8])])
            job.wait(DEADLINE_S)

    with pytest.raises(tw.JobError, match="FiveError"):
        run_to_end()


@pytest.mark.parametrize("catch", [(), "ValueError", BaseException, (ValueError, 3), None])
def test_only_exceptions_can_be_caught(catch: Any) -> None:
    """When the dataflow is described."""
    with raises(tw.GraphError):
        tw.Dataflow("test").dead_letters(catch=catch)
