"""Errors of users of substreams, and the messages for them."""

from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.runtime.description.dataflow_description import description_of

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
    "joined": (
        lambda: divided().join(divided(), on=rest),
        "'join' puts records of different substreams together.*'rests'",
    ),
    "twice": (lambda: divided().map(abs).substreams("more", rest), "substreams of 'rests' already"),
    "no substreams": (
        lambda: tw.run(
            tw.Dataflow("none").input("n").collect_substream(lambda key, rows: key).capture("c").flow, engine="local"
        ),
        "'collect_substream' asks when substreams end, but no stream that it reads has any",
    ),
    "other bound": (lambda: divided().unary(untold, bound="hard", name="u"), 'bound is "soft" or "firm", or None'),  # type: ignore[arg-type]
    "order of nothing": (lambda: divided().unary(untold, ordered=True, name="u"), "ordered=True is the order of ends"),
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
    "a firm bound that waits for itself": (
        lambda: description_of(
            looping(
                lambda walks: (
                    walks.substreams("in", rest).unary(untold, bound="firm", name="piece").without_substreams()
                ),
                divided=False,
            )
        ).plan(),
        "'iterate/piece' holds each substream .* come back round a loop to where substreams 'in' are declared",
    ),
    "turns beside whole epochs": (
        lambda: description_of(
            looping(
                lambda walks: walks.unary(untold, bound="firm", name="piece").stateful_map(
                    rest, start=int, step=lambda n, row: (n, row), scope="substream"
                )
            )
        ).plan(),
        "'iterate/piece' takes one substream after the other .* 'iterate/stateful_map' there waits until times",
    ),
    "no name": (
        lambda: tw.Dataflow("i").input("n").substreams(rest),  # type: ignore[arg-type]
        "the first argument is the name of the substreams, not <function",
    ),
    "states of which scope": (
        lambda: divided().stateful_map(rest, start=int, step=lambda n, row: (n, row)),
        'Call without_substreams\\(\\) before.* or say scope="substream"',
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
    with raises(tw.GraphError):
        numbers.substreams("rests", rest)
    flow = tw.Dataflow("read after")
    numbers = flow.input("numbers")
    numbers.substreams("rests", rest)
    with raises(tw.GraphError):
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


def test_ends_of_what_there_cannot_be_are_refused() -> None:
    """A predicate that has no such name, a token that is none, several keys as one."""

    def name(stream: tw.Stream[Any]) -> None:
        stream.substreams("named", predicates={"odd": rest}).capture("c")

    def without_token(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for _ in input:
                context.end_substream("a")

        return schedule

    def behind_another(stream: tw.Stream[Any]) -> None:
        stream.concat(stream.flow.input("other")).substreams("rests", rest).capture("c")

    assert "input numbers has no substreams that could end: declare them" in fail(
        behind_another, lambda handle: handle.end_substream(1)
    )
    assert "an end of 'even' of 'named' came, where substreams have the names 'odd'" in fail(
        name, lambda handle: handle.end_substream("even")
    )
    message = fail(
        lambda stream: stream.unary(without_token, name="u").substreams("rests", rest).capture("c"),
        lambda handle: handle.send([1]),
    )
    assert "end_substream(token, *keys) takes a token first" in message
    with (
        tw.run(divided().flow, engine="local") as job,
        job.input("numbers") as handle,
        raises(TypeError),
    ):
        handle.end_substream([1, 2])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"user": 1}, "no field 'usr' for the key; a record has ['user']"),
        ((1, 2), "'usr' names a field of dicts or a column, and (1, 2) is a tuple: give a function as the key"),
    ],
    ids=repr,
)
def test_a_record_without_the_field_of_the_key_fails_the_job(record: Any, message: str) -> None:
    """The error says what the records have."""
    assert message in fail(
        lambda stream: stream.substreams("rests", "usr").capture("c"), lambda handle: handle.send([record])
    )


def test_tokens_of_substreams_do_not_stand_for_each_other() -> None:
    """Not in a set of tokens, which keeps the earliest only."""

    def hold(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            with tw.TokenSet() as tokens:
                for lent, _ in input:
                    tokens.insert(lent.retain())

        return schedule

    message = fail(
        lambda stream: stream.substreams("rests", rest).unary(hold, name="u").capture("c"),
        lambda handle: handle.send([0, 1]),
    )
    assert "TokenSet" in message


def test_who_did_not_ask_is_not_told() -> None:
    """The error says how to ask."""
    message = fail(
        lambda s: s.substreams("r", rest).unary(untold, name="u").capture("c"), lambda handle: handle.send([1])
    )
    assert "was described without bound=" in message
