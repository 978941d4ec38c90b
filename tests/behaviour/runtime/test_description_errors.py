"""Wrong names and arguments of a description: refused where they are given, with an error that says what is wrong."""

from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import ignore, scheduled
from tidewheel.progress import ROOT, PathSummary
from tidewheel.runtime.description.dataflow_description import description_of


@pytest.fixture
def flow() -> tw.Dataflow:
    return tw.Dataflow("flow")


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["", None, 3, b"bytes", "\ud800", "a\nb", "a\0", "n" * 401])
def test_a_name_is_a_text_that_can_be_shown(flow: tw.Dataflow, name: Any) -> None:
    """For the dataflow and for everything in it: pages, metrics and lists of topics have it."""
    numbers = flow.input("numbers")
    with raises(tw.GraphError):
        tw.Dataflow(name)
    for add, kind in (
        (lambda: flow.input(name), "an? input"),
        (lambda: numbers.capture(name), "an? capture"),
        (lambda: numbers.probe(name), "an? probe"),
        (lambda: numbers.unary(scheduled(ignore), name=name), "an operator"),
        (lambda: flow.source(name, tw.IterableSource([])), "an operator"),
        (lambda: flow.operator([numbers], 1, scheduled(ignore), name=name), "an operator"),
    ):
        with pytest.raises(tw.GraphError, match=rf"dataflow 'flow': the name of {kind} is a text of 1 to \d+ char"):
            add()
    with raises(tw.TidewheelError):
        numbers.publish(name)
    with raises(tw.GraphError), flow.scope(name):
        pass
    with raises(tw.GraphError):
        numbers.substreams(name, lambda record: record)


@pytest.mark.parametrize(
    ("add", "kind"),
    [
        (lambda flow, stream, name: flow.input(name), "input"),
        (lambda flow, stream, name: stream.capture(name), "capture"),
        (lambda flow, stream, name: stream.probe(name), "probe"),
        (lambda flow, stream, name: stream.publish(name), "topic"),
    ],
)
def test_names_are_taken_once_of_each_kind(flow: tw.Dataflow, add: Any, kind: str) -> None:
    """The error names dataflow and name; the same name may be had by things of different kinds."""
    stream = flow.input("numbers")
    add(flow, stream, "name")
    with pytest.raises(
        tw.GraphError, match=rf"dataflow 'flow' has an? {kind} (named )?'name' already: give this one an"
    ):
        add(flow, stream, "name")


@pytest.mark.parametrize("name", ["numbers", ""])
def test_an_input_that_was_refused_is_not_there(flow: tw.Dataflow, name: str) -> None:
    """A notebook's cell that is run again fails, and leaves the dataflow as it was: it can still complete."""
    flow.input("numbers").capture("results")
    size = description_of(flow).size
    with pytest.raises(tw.GraphError):
        flow.input(name)
    assert description_of(flow).size == size
    with tw.run(flow, engine="local") as job:
        job.input("numbers").close()
        job.wait()


def test_operators_may_share_a_name_and_are_told_apart(flow: tw.Dataflow) -> None:
    """Errors have to say which one it was: each gets a name of its own, with the scopes that it is in."""
    numbers = flow.input("numbers")
    with flow.scope("loop") as loop, loop.inner("inner") as inner:
        numbers.map(abs).map(abs).unary(scheduled(ignore), name="map-2")
        numbers.enter(loop).map(abs).enter(inner).map(abs)
    names = [part.name for operator in description_of(flow).plan().operators for part in operator.stages or (operator,)]
    assert len(set(names)) == len(names)
    assert {"map", "map-2", "map-2-2", "loop/map", "loop/inner/map", "loop/inner/enter"} <= set(names)


# ---------------------------------------------------------------------- operators


@pytest.mark.parametrize("build", [None, 3, "build"])
def test_a_build_is_a_function(flow: tw.Dataflow, build: Any) -> None:
    """The error names the operator, when it is described."""
    with raises(tw.GraphError):
        flow.input("numbers").unary(build, name="subject")


@pytest.mark.parametrize("name", ["map", "flat_map", "filter", "map_batches", "inspect"])
@pytest.mark.parametrize("function", [None, 3, "upper"])
def test_what_is_applied_is_a_function(flow: tw.Dataflow, name: str, function: Any) -> None:
    """Anything else is shown in the error, when the dataflow is described."""
    with pytest.raises(tw.GraphError, match=rf"^{name} takes a function.*, not {function!r}"):
        getattr(flow.input("numbers"), name)(function)


@pytest.mark.parametrize("ports", [(0, 1), (1, 0), (-1, 0), (0, -1)])
def test_summaries_are_of_ports_that_exist(flow: tw.Dataflow, ports: tuple[int, int]) -> None:
    """The error names operator and ports, and how many there are."""
    flow.operator([flow.input("n")], 1, scheduled(ignore), {ports: PathSummary.identity(ROOT)}, name="subject")
    with pytest.raises(
        tw.GraphError,
        match=rf"operator 'subject' summarises a path from input {ports[0]} to output {ports[1]}, but it has 1 inputs",
    ):
        description_of(flow).plan()


def test_summaries_are_of_the_scopes_of_their_ports(flow: tw.Dataflow) -> None:
    """An operator in a loop has times of the loop."""
    stream = flow.input("numbers").enter(flow.scope("loop"))
    flow.operator([stream], 1, scheduled(ignore), {(0, 0): PathSummary.identity(ROOT)}, name="subject")
    with raises(tw.GraphError):
        description_of(flow).plan()


def test_an_exchange_has_a_key_for_each_input(flow: tw.Dataflow) -> None:
    """Of `operator`, the error says how many there should be."""
    with raises(tw.GraphError):
        flow.operator([flow.input("numbers")], 1, scheduled(ignore), exchange=["a", "b"], name="subject")


@pytest.mark.parametrize("exchange", [("key",), ("a", "b", "c"), "id", "key", lambda record: record])
def test_binary_has_a_key_for_each_side(flow: tw.Dataflow, exchange: Any) -> None:
    """One key is not a pair of keys, and a name of two letters least of all: the error names the operator."""
    left, right = flow.input("left"), flow.input("right")
    with raises(tw.GraphError):
        left.binary(right, scheduled(ignore), exchange=exchange, name="join")


@pytest.mark.parametrize(
    "describe",
    [
        lambda flow, stream: flow.feedback().connect([1]),
        lambda flow, stream: stream.enter("loop"),
        lambda flow, stream: flow.operator(stream, 1, scheduled(ignore), name="subject"),
        lambda flow, stream: flow.operator([stream], -1, scheduled(ignore), name="subject"),
        lambda flow, stream: flow.operator([stream], 1, scheduled(ignore), {(0, 0): 1}, name="subject"),
        lambda flow, stream: flow.operator([stream, stream], 1, scheduled(ignore), exchange="ab", name="subject"),
        lambda flow, stream: flow.scope(""),
        lambda flow, stream: flow.scope(None),
        lambda flow, stream: stream.iterate(lambda inner: (inner, inner), name=3),
    ],
)
def test_arguments_of_the_wrong_type_are_refused(flow: tw.Dataflow, describe: Any) -> None:
    """A description that makes no sense is a GraphError where it is made."""
    with pytest.raises(tw.GraphError):
        describe(flow, flow.input("numbers"))


def test_epochs_that_are_no_integers_have_no_next_one() -> None:
    """Outside all loops, a feedback advances integers only: where times are of another kind, it is refused."""
    flow = tw.Dataflow("flow", tw.progress.ProductDomain(tw.progress.IntegerDomain(), tw.progress.IntegerDomain()))
    with pytest.raises(tw.GraphError):
        flow.feedback()
