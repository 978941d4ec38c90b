"""Wrong dataflows: refused before anything runs, with an error that names the operator or scope."""

from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import ignore, scheduled
from tidewheel.runtime.description.dataflow_description import description_of


def pass_on(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    return stream.map(lambda record: record)


@pytest.fixture
def flow() -> tw.Dataflow:
    return tw.Dataflow("flow")


# ---------------------------------------------------------------------- cycles


def test_a_cycle_that_does_not_advance_is_refused_with_its_path(flow: tw.Dataflow) -> None:
    """A feedback that adds nothing would let a message circulate at one time for ever."""
    with flow.scope("loop") as loop:
        back = loop.feedback(advance=0)
        back.connect(pass_on(flow.input("numbers").enter(loop).concat(back)))
    with raises(tw.GraphError) as refusal:
        description_of(flow).plan()
    for port in ("input 1 of 'loop/concat'", "input 0 of 'loop/map'", "output 0 of 'loop/feedback'"):
        assert f" {port} ->" in str(refusal.value)
    assert "scope.feedback()" in str(refusal.value)


@pytest.mark.parametrize("by", [-1, -2])
@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_an_operator_that_takes_times_back_is_refused(flow: tw.Dataflow, by: int, *, in_a_cycle: bool) -> None:
    """A summary below the identity is refused before the job starts, in a cycle that sums up to 0 or less, too."""
    back = flow.feedback(1)
    numbers = flow.input("numbers").concat(back) if in_a_cycle else flow.input("numbers")
    path = tw.progress.PathSummary.advance(numbers.nesting, by)
    (earlier,) = flow.operator([numbers], 1, lambda context: ignore, {(0, 0): path}, name="back")
    back.connect(earlier)
    with raises(tw.GraphError):
        tw.run(flow, engine="local")


def test_a_feedback_that_advances_nothing_may_stand_where_there_is_no_cycle(flow: tw.Dataflow) -> None:
    """Only cycles are refused."""
    back = flow.feedback(advance=0)
    back.connect(flow.input("numbers"))
    description_of(flow).plan()


def test_leaving_the_inner_loop_loses_its_advance(flow: tw.Dataflow) -> None:
    """A cycle of the outer loop cannot rely on the rounds of the inner one: the error shows all of the path."""
    with flow.scope("outer") as outer, outer.inner("inner") as inner:
        back = outer.feedback(advance=0)
        inside = flow.input("numbers").enter(outer).concat(back).enter(inner)
        round_again = inner.feedback()
        inside = inside.concat(round_again)
        round_again.connect(pass_on(inside))
        back.connect(inside.leave())
    with raises(tw.GraphError) as refusal:
        description_of(flow).plan()
    path = str(refusal.value)
    for name in ("outer/feedback", "outer/concat", "outer/inner/enter", "outer/inner/concat", "outer/leave"):
        assert f"'{name}'" in path
    assert "'outer/inner/feedback'" not in path


def test_with_a_feedback_of_its_own_the_outer_cycle_is_sound(flow: tw.Dataflow) -> None:
    """The same graph with an advance in both loops is taken."""
    with flow.scope("outer") as outer, outer.inner("inner") as inner:
        back = outer.feedback()
        inside = flow.input("numbers").enter(outer).concat(back).enter(inner)
        round_again = inner.feedback()
        inside = inside.concat(round_again)
        round_again.connect(pass_on(inside))
        back.connect(inside.leave())
    description_of(flow).plan()


def test_the_outer_feedback_does_not_save_a_cycle_inside(flow: tw.Dataflow) -> None:
    """Each cycle has to advance by itself; the error shows only what is on it."""
    with flow.scope("outer") as outer, outer.inner("inner") as inner:
        stuck = inner.feedback(advance=0)
        inside = flow.input("numbers").enter(outer).enter(inner).concat(stuck)
        stuck.connect(inside)
        back = outer.feedback()
        back.connect(inside.leave())
    with raises(tw.GraphError) as refusal:
        description_of(flow).plan()
    assert "leave" not in str(refusal.value)


@pytest.mark.parametrize("advance", [-1, 1.0, "1", None, True])
def test_a_feedback_advances_by_a_whole_number(flow: tw.Dataflow, advance: Any) -> None:
    """The error names the scope."""
    for open_loop, place in ((flow, "the outermost scope"), (flow.scope("loop"), "scope 'loop'")):
        with pytest.raises(tw.GraphError, match=f"a feedback in {place}: advance is a whole number"):
            open_loop.feedback(advance)


# ---------------------------------------------------------------------- feedback


def test_a_feedback_has_to_be_connected(flow: tw.Dataflow) -> None:
    """The error names it and says what to call."""
    flow.scope("loop").feedback()
    with raises(tw.GraphError):
        description_of(flow).plan()


def test_a_feedback_takes_one_stream(flow: tw.Dataflow) -> None:
    """The second is refused, and the first stays."""
    back = flow.feedback()
    numbers = flow.input("numbers")
    back.connect(numbers)
    with raises(tw.GraphError):
        back.connect(flow.input("more"))
    description_of(flow).plan()


def test_a_feedback_takes_a_stream_of_its_own_scope(flow: tw.Dataflow) -> None:
    """The error names both scopes; a stream of another loop of the same name is of another scope."""
    numbers = flow.input("numbers")
    with flow.scope("loop") as loop, flow.scope("loop") as twin:
        back = loop.feedback()
        with raises(tw.GraphError):
            back.connect(numbers)
        with raises(tw.GraphError):
            back.connect(numbers.enter(twin))
        back.connect(numbers.enter(loop))
    description_of(flow).plan()


def test_a_feedback_takes_a_stream_of_its_own_dataflow(flow: tw.Dataflow) -> None:
    """Streams of another dataflow are told what to do instead."""
    back = flow.feedback()
    with raises(tw.GraphError):
        back.connect(tw.Dataflow("both").input("numbers"))


# ---------------------------------------------------------------------- scopes


def test_leaving_needs_a_loop(flow: tw.Dataflow) -> None:
    """Outside every loop there is nothing to leave."""
    with raises(tw.GraphError):
        flow.input("numbers").leave()


def test_entering_goes_one_loop_at_a_time(flow: tw.Dataflow) -> None:
    """A loop is entered from the scope that it lies in, not from further out, from within or from beside it."""
    outer, beside = flow.scope("outer"), flow.scope("beside")
    inner = outer.inner("inner")
    numbers = flow.input("numbers")
    for stream, loop, message in (
        (numbers, inner, "enter: scope 'outer/inner' does not lie directly in the stream's, the outermost scope"),
        (numbers.enter(beside), inner, "enter: scope 'outer/inner' does not lie directly in the stream's, scope 'bes"),
        (numbers.enter(outer), outer, "enter: scope 'outer' does not lie directly in the stream's, scope 'outer'"),
        (numbers.enter(outer).enter(inner), outer, "enter: scope 'outer' does not lie directly in .*'outer/inner'"),
        (tw.Dataflow("other").input("n"), outer, "enter: scope 'outer' does not lie directly in the stream's"),
    ):
        with pytest.raises(tw.GraphError, match=message):
            stream.enter(loop)


MIXTURES: dict[str, Callable[[tw.Dataflow, tw.Stream[Any], tw.Stream[Any]], object]] = {
    "concat": lambda flow, one, other: one.concat(one, other),
    "join": lambda flow, one, other: one.binary(other, scheduled(ignore), name="join"),
    "many": lambda flow, one, other: flow.operator([one, one, other], 1, scheduled(ignore), name="many"),
    "summarised": lambda flow, one, other: flow.operator([one, other], 1, scheduled(ignore), {}, name="summarised"),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_an_operator_reads_streams_of_one_scope(flow: tw.Dataflow, name: str) -> None:
    """Times of two scopes cannot be compared: the error names operator and scopes."""
    numbers = flow.input("numbers")
    inside = numbers.enter(flow.scope("loop"))
    twin = numbers.enter(flow.scope("loop"))
    for one, other, places in (
        (numbers, inside, "the outermost scope and of scope 'loop'"),
        (inside, numbers, "scope 'loop' and of the outermost scope"),
        (inside, twin, "scope 'loop' and of scope 'loop'"),
    ):
        with pytest.raises(
            tw.GraphError, match=rf"operator '{name}' joins streams of {places}: enter\(\) or leave\(\)"
        ):
            MIXTURES[name](flow, one, other)
    description_of(flow).plan()


@pytest.mark.parametrize("name", ["concat", "join", "many", "summarised"])
def test_a_foreign_stream_is_told_to_go_over_a_topic(flow: tw.Dataflow, name: str) -> None:
    """Two dataflows meet at a topic only."""
    message = f"operator '{name}' of dataflow 'flow' cannot read a stream of dataflow 'other': publish it there and"
    with pytest.raises(tw.GraphError, match=message):
        MIXTURES[name](flow, flow.input("numbers"), tw.Dataflow("other").input("numbers"))


@pytest.mark.parametrize("name", ["concat", "join", "many"])
@pytest.mark.parametrize("other", [None, [1, 2], "numbers"])
def test_an_operator_reads_streams_only(flow: tw.Dataflow, name: str, other: Any) -> None:
    """Something else is shown in the error, with the operator."""
    with pytest.raises(tw.GraphError, match=rf"operator '{name}' reads streams, not .*"):
        MIXTURES[name](flow, flow.input("numbers"), other)


# ---------------------------------------------------------------------- iterate


@pytest.mark.parametrize(
    "body",
    [
        lambda inner: inner,
        lambda inner: None,
        lambda inner: (inner,),
        lambda inner: (inner, inner, inner),
        lambda inner: [inner, inner],
        lambda inner: (inner, None),
        lambda inner: ([1], inner),
    ],
)
def test_the_body_of_a_loop_returns_two_streams(flow: tw.Dataflow, body: Any) -> None:
    """What goes round and what leaves; the error names the loop."""
    with raises(tw.GraphError):
        flow.input("numbers").iterate(body, name="walk")


def test_what_goes_round_is_of_the_loop(flow: tw.Dataflow) -> None:
    """A stream from outside, or one that has left already, cannot be fed back."""
    numbers = flow.input("numbers")
    for body in (lambda inner: (numbers, inner), lambda inner: (inner.leave(), inner)):
        with raises(tw.GraphError):
            numbers.iterate(body)


def test_what_leaves_is_in_the_loop(flow: tw.Dataflow) -> None:
    """A result that has left already cannot leave again."""
    with raises(tw.GraphError):
        flow.input("numbers").iterate(lambda inner: (inner, inner.leave()))


def test_a_result_of_another_scope_is_refused(flow: tw.Dataflow) -> None:
    """A stream of a loop further in would come out one scope too deep, with times of the wrong kind."""
    deeper: list[tw.Stream[Any]] = []

    def inner_body(inner: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        deeper.append(inner)
        return inner, inner

    def outer_body(outer: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        return outer.iterate(inner_body, name="inner"), deeper[0]

    with raises(tw.GraphError):
        flow.input("numbers").iterate(outer_body, name="outer")
