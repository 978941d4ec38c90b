"""What users of substreams do wrong, and what they are told."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import tidewheel as tw

DEADLINE_S = 20.0


def rest(number: int) -> int:
    return number % 3


def untold(context: Any) -> Any:
    return lambda input, output: list(input.ended)


def divided() -> tw.Stream[Any]:
    return tw.Dataflow("divided").input("numbers").substreams("rests", rest)


def looping(body: Callable[[tw.Stream[Any]], tw.Stream[Any]], *, divided: bool = True) -> tw.Dataflow:
    """Return a dataflow with a loop, whose stream is divided before it, or not."""
    flow = tw.Dataflow("looping")
    stream: tw.Stream[Any] = flow.input("numbers")
    if divided:
        stream = stream.substreams("before", rest)

    def go_round(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        again = body(walks.map(abs))
        return again, again

    stream.iterate(go_round).capture("left")
    return flow


def counting_what_comes_back() -> tw.Dataflow:
    """Return a dataflow that counts what goes round a loop, which nothing says of it before the loop is closed."""
    flow = tw.Dataflow("counting")
    with flow.scope("loop") as loop:
        back = loop.feedback()
        back.count().capture("counts")
        walks = flow.input("numbers").substreams("before", rest).enter(loop).concat(back)
        back.connect(walks.map(abs))
    return flow


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "mixed": (lambda: divided().count(), "'count: partial' puts records of different substreams together.*'rests'"),
    "twice": (lambda: divided().map(abs).substreams("more", rest), "substreams of 'rests' already"),
    "no substreams": (
        lambda: tw.run(
            tw.Dataflow("none").input("n").collect_substream(lambda key, rows: key).capture("c").flow, engine="local"
        ),
        "'collect_substream' asks when substreams end, but no stream that it reads has any",
    ),
    "other bound": (lambda: divided().unary("u", untold, bound="hard"), 'bound is "soft" or "firm", or None'),  # type: ignore[arg-type]
    "order of nothing": (lambda: divided().unary("u", untold, ordered=True), "ordered=True is the order of ends"),
    "last of an input": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, last=bool),
        r"any worker, so none knows which is the last.*end_substream\(key\)",
    ),
    "neither": (lambda: tw.Dataflow("i").input("n").substreams("rests"), "give a key, or predicates by name"),
    "both": (lambda: divided().substreams("more", rest, predicates={"odd": bool}), "give a key, or predicates"),
    "no predicate": (
        lambda: tw.Dataflow("i").input("n").substreams("p", predicates={"odd": 3}),  # type: ignore[dict-item]
        "for 'odd', takes a function",
    ),
    "collected in a loop": (
        lambda: tw.run(looping(lambda walks: walks.collect_substream(lambda key, rows: rows[0])), engine="local"),
        "comes back to it round a loop.*Let it read what leaves the loop",
    ),
    "divided in a loop": (
        lambda: tw.run(looping(lambda walks: walks.substreams("in", rest), divided=False), engine="local"),
        "puts records of different substreams together.*'in'",
    ),
    "mixed in a loop": (
        lambda: tw.run(counting_what_comes_back(), engine="local"),
        "puts records of different substreams together",
    ),
    "a time and no time-out": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, at=abs),
        "substreams rests: .*give both at, when a record happened, and timeout",
    ),
    "a time-out and no time": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, timeout=3),
        "give both at, when a record happened, and timeout",
    ),
    "only lateness": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, lateness=3),
        "lateness is that of a time-out: give at and timeout",
    ),
    "predicates that time out": (
        lambda: tw.Dataflow("i").input("n").substreams("p", predicates={"odd": bool}, at=abs, timeout=3),
        "so they have no time-out: give a key",
    ),
    "no time at all": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, at=abs, timeout=0),
        "substreams rests: timeout is greater than zero, it cannot be 0",
    ),
    "negative lateness": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, at=abs, timeout=1, lateness=-1),
        "lateness is not negative",
    ),
    "two kinds of durations": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, at=abs, timeout=1, lateness=timedelta(1)),
        r"lateness is datetime.timedelta\(days=1\) beside 1: give both as numbers or as timedeltas",
    ),
    "a number for a time": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, at=3, timeout=1),  # type: ignore[arg-type]
        "at is a function of a record, or the name of a column, not 3",
    ),
    "no such column": (
        lambda: (
            tw.Dataflow("i")
            .input("n")
            .with_schema(pa.schema({"n": pa.int64()}))
            .substreams("rests", "n", at="m", timeout=1)
        ),
        "there is no column 'm'",
    ),
    "last of an input with a time-out": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, last=bool, at=abs, timeout=1),
        "any worker, so none knows which is the last",
    ),
    "a time-out in a loop": (
        lambda: looping(lambda walks: walks.substreams("in", rest, at=abs, timeout=1), divided=False),
        "operator 'substreams in' processes one epoch after the other, but times in scope .* not all before or after",
    ),
    "a firm bound that waits for itself": (
        lambda: looping(
            lambda walks: walks.substreams("in", rest).unary("piece", untold, bound="firm").without_substreams(),
            divided=False,
        ).plan(),
        "'iterate/piece' holds each substream .* comes back round a loop to where substreams 'in' are declared",
    ),
    "turns beside whole epochs": (
        lambda: looping(
            lambda walks: walks.unary("piece", untold, bound="firm").stateful_map(
                rest, int, lambda n, row: (n, row), scope="substream"
            )
        ).plan(),
        "'iterate/piece' takes one substream after the other .* 'iterate/stateful_map' there waits until times",
    ),
    "other tracking": (
        lambda: tw.Dataflow("i").input("n").substreams("rests", rest, tracking="guesses"),  # type: ignore[arg-type]
        'substreams rests: tracking is "tokens" or "punctuations", not \'guesses\'',
    ),
    "no key": (lambda: tw.Dataflow("i").input("n").substreams("rests", 3), "a key is a function of a record"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    """While the dataflow is described, with an error that says what to do."""
    make, message = WRONG[name]
    with pytest.raises(tw.GraphError, match=message):
        make()


def test_an_input_is_divided_for_all_or_none() -> None:
    """The stream before and the stream after are the same messages."""
    flow = tw.Dataflow("read before")
    numbers = flow.input("numbers")
    numbers.capture("all")
    with pytest.raises(tw.GraphError, match="'numbers' is read by another operator already"):
        numbers.substreams("rests", rest)
    flow = tw.Dataflow("read after")
    numbers = flow.input("numbers")
    numbers.substreams("rests", rest)
    with pytest.raises(tw.GraphError, match="divided into the substreams 'rests' since"):
        numbers.map(abs)


def fail(describe: Callable[[tw.Stream[Any]], Any], use: Callable[[Any], None]) -> str:
    """Return the error of a job that is used wrongly."""
    flow = tw.Dataflow("wrong")
    describe(flow.input("numbers"))

    def run() -> None:
        with tw.run(flow, engine="local") as job:
            with job.input("numbers") as handle:
                use(handle)
            job.wait(DEADLINE_S)

    with pytest.raises(tw.JobError) as caught:
        run()
    return str(caught.value)


def test_broken_promises_fail_the_job() -> None:
    """With the key, the name of the substreams and the time; a later time is another substream."""

    def collect(stream: tw.Stream[Any]) -> None:
        stream.substreams("rests", rest).collect_substream(lambda key, rows: key).capture("c")

    def send_late(handle: Any) -> None:
        handle.advance_to(4)
        handle.end_substream(1)
        handle.send([3, 4])

    def end_twice(handle: Any) -> None:
        handle.end_substream(1)
        handle.end_substream(1)

    assert "a record of substream 1 of 'rests' came at time 4, but that substream has ended" in fail(collect, send_late)
    assert "an end of substream 1 of 'rests' came at time 0, but" in fail(collect, end_twice)
    assert "input numbers has no substreams that could end: declare them" in fail(
        lambda s: s.capture("c"), lambda handle: handle.end_substream(1)
    )


def test_a_handle_ends_no_substream_that_times_out() -> None:
    """As the records do not get their keys at the input."""
    message = fail(
        lambda stream: stream.substreams("rests", rest, at=abs, timeout=1).capture("c"),
        lambda handle: handle.end_substream(1),
    )
    assert "input numbers has no substreams that could end: declare them" in message
    assert "without timeout=, by which they end themselves" in message


@pytest.mark.parametrize(
    ("at", "timeout", "message"),
    [
        (None, 1, "has no event time, but None"),
        (float("inf"), 1, "inf, which lies in no window"),
        (
            datetime(2026, 1, 1, tzinfo=UTC),
            1,
            "windows, intervals or time-outs are of 1; for datetimes give a timedelta",
        ),
        (1, timedelta(1), "a datetime or a timedelta, since windows, intervals or time-outs are of"),
        (datetime.max.replace(tzinfo=UTC), timedelta(1), "there is no time datetime.timedelta\\(days=1\\) after that"),
    ],
)
def test_a_record_without_a_proper_time_fails_the_job(at: Any, timeout: Any, message: str) -> None:
    """It would belong to no substream; the error shows it."""
    found = fail(
        lambda stream: stream.substreams("timed", lambda row: 0, at=lambda row: row[0], timeout=timeout).capture("c"),
        lambda handle: handle.send([(at,)]),
    )
    assert re.search(message, found)


def test_tokens_of_substreams_do_not_stand_for_each_other() -> None:
    """Not in a set of tokens, which keeps the earliest only."""

    def hold(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            with tw.TokenSet() as tokens:
                for lent, _ in input:
                    tokens.insert(lent.retain())

        return schedule

    message = fail(
        lambda stream: stream.substreams("rests", rest).unary("u", hold).capture("c"),
        lambda handle: handle.send([0, 1]),
    )
    assert "TokenSet" in message


def test_explain_says_which_substreams_are_open() -> None:
    """As what holds their tokens waits for nothing but that."""
    flow = tw.Dataflow("open")
    numbers = flow.input("numbers").substreams("rests", rest)
    numbers.collect_substream(lambda key, rows: key).probe("done")
    with tw.run(flow, workers=2, engine="local") as job:
        handle = job.input("numbers")
        handle.send([0, 1])
        handle.end_substream(0)
        handle.advance_to(1)
        with pytest.raises(tw.JobError, match=r"substreams 'rests' of 1 key\(s\) are open, such as 1: who waits"):
            job.probe("done").wait_until(1)


def test_who_did_not_ask_is_not_told() -> None:
    """The error says how to ask."""
    message = fail(lambda s: s.substreams("r", rest).unary("u", untold).capture("c"), lambda handle: handle.send([1]))
    assert "was described without bound=" in message
