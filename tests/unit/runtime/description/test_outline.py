"""Outlines: what is shown of a dataflow while it is described, and what `Dataflow.explain` makes of it."""

import re
from collections import Counter
from functools import partial
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.runtime.drawing.random_flow import WEIRD, flows
from tests.laws.strategies import law_settings
from tidewheel.operators.base.batchwise import build_pass
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.outline import Block, Edge, OperatorOutline
from tidewheel.runtime.description.pacts import Exchange


@pytest.fixture
def flow() -> tw.Dataflow:
    return tw.Dataflow("flow")


def named(flow: tw.Dataflow, name: str) -> OperatorOutline:
    """Return the outline of an operator."""
    return next(operator for operator in description_of(flow).outline().operators if operator.name == name)


def test_an_operator_is_as_it_was_described(flow: tw.Dataflow) -> None:
    """Its inputs, how records come to them, how many outputs it has, and whether it may run as one with others."""
    numbers = flow.input("numbers")
    flow.operator([numbers, numbers.map(abs)], 2, build_pass, exchange=[None, "key"], name="split")
    split, mapped = named(flow, "split"), named(flow, "map")
    assert (split.sources, split.pacts) == ((Source(0, 0), Source(1, 0)), (None, Exchange("key")))
    assert (split.outputs, split.is_stage, mapped.is_stage) == (2, False, True)
    assert description_of(flow).outline().output_name(Source(2, 1)) == "split[1]"
    assert description_of(flow).outline().output_name(Source(1, 0)) == "map"


def test_what_enters_or_leaves_a_loop_belongs_to_the_loop(flow: tw.Dataflow) -> None:
    """Under a name that says where it ends; within the loop's box it goes by a short one."""
    with flow.scope("outer") as outer, outer.inner("inner") as inner:
        flow.input("a/b").enter(outer).enter(inner).map(abs).leave().leave()
    shown = [
        (operator.name, operator.short_name, operator.scope.path)
        for operator in description_of(flow).outline().operators
    ]
    assert shown == [
        ("input a/b", "input a/b", ""),
        ("outer/enter", "enter", "outer"),
        ("outer/inner/enter", "enter", "outer/inner"),
        ("outer/inner/map", "map", "outer/inner"),
        ("outer/leave", "leave", "outer/inner"),
        ("leave", "leave", "outer"),
    ]


def test_scopes_stand_where_their_first_operator_does(flow: tw.Dataflow) -> None:
    """Whatever came in between: each scope is one block, and two loops of one name are two."""
    numbers = flow.input("numbers")
    with flow.scope("loop") as one, flow.scope("loop") as other:
        entered = numbers.enter(one)
        numbers.enter(other)
        numbers.map(abs)
        entered.map(abs)
    root = description_of(flow).outline().blocks()
    assert root.first == 0
    assert [item.items if isinstance(item, Block) else item for item in root.items] == [0, [1, 4], [2], 3]


def test_edges_go_back_only_round_loops(flow: tw.Dataflow) -> None:
    """An edge to what was described before closes a loop, and so does one to the operator itself."""
    numbers = flow.input("numbers")
    late, again, missing = flow.feedback(), flow.feedback(), flow.feedback()
    late.connect(numbers)
    again.connect(again)
    missing.map(abs)
    edges = description_of(flow).outline().edges()
    assert [(edge.operator, edge.goes_back) for edge in edges] == [(1, False), (2, True), (3, False), (4, False)]
    assert edges[2] == Edge(None, 3, 0, None)


def test_marks_are_what_names_do_not_say(flow: tw.Dataflow) -> None:
    """Probes always; an input, a capture or a topic if its operator had to take another name."""
    numbers = flow.input("numbers").probe("one").probe("other").capture("kept").publish("topic")
    numbers.unary(build_pass, name="input more")
    flow.input("more")
    assert [operator.marks for operator in description_of(flow).outline().operators] == [
        ("probe 'one'", "probe 'other'"),
        (),
        (),
        (),
        ("input 'more'",),
    ]


def test_it_shows_what_there_is_at_the_time(flow: tw.Dataflow) -> None:
    """An outline does not change when the dataflow does."""
    numbers = flow.input("numbers")
    back = flow.feedback()
    before = description_of(flow).outline()
    back.connect(numbers.concat(back))
    assert (len(before.operators), before.operators[1].sources) == (2, (None,))
    assert (description_of(flow).size, named(flow, "feedback").sources) == (3, (Source(2, 0),))


def parsed(line: str) -> tuple[str, list[str]]:
    """Return an operator's name and its inputs, without what is said about them."""
    name, *rest = re.split(r" {2,}", line.strip())
    inputs = rest[0] if rest and rest[0].startswith("<") else ""
    return name, [re.sub(r" \((by|goes) .*\)$", "", edge) for edge in re.split(r", (?=<)", inputs) if edge]


def edge_text(flow: tw.Dataflow, edge: Edge) -> str:
    """Return what an edge looks like, without what is said about it."""
    name = "(not connected)" if edge.source is None else description_of(flow).outline().output_name(edge.source)
    return f"{'<-' if edge.pact is None else '<='} {name}"


@law_settings(200)
@given(flows())
def test_every_operator_and_every_edge_is_there_once(flow: tw.Dataflow) -> None:
    """One line an operator, with its name and each of its inputs, in whatever state the dataflow is."""
    outline = description_of(flow).outline()
    lines = [parsed(line) for line in flow.explain().splitlines()[1:] if not line.strip().startswith("scope ")]
    assert Counter(name for name, _ in lines) == Counter(operator.name for operator in outline.operators)
    edges = Counter((outline.operators[edge.operator].name, edge_text(flow, edge)) for edge in outline.edges())
    assert Counter((name, edge) for name, inputs in lines for edge in inputs) == edges


@law_settings(100)
@given(flows())
def test_what_runs_as_one_is_shown_as_one(flow: tw.Dataflow) -> None:
    """With ``fused``, the lines are the operators of the plan, and the edges those between them."""
    try:
        plan = description_of(flow).plan()
    except tw.GraphError:
        return  # it is not finished
    lines = [parsed(line) for line in flow.explain(fused=True).splitlines()[1:] if "scope '" not in line]
    assert len(lines) == len(plan.operators)
    assert sum(len(inputs) for _, inputs in lines) == sum(len(operator.sources) for operator in plan.operators)
    stages = Counter(len(name.split(" > ")) for name, _ in lines)
    assert stages == Counter(max(len(operator.stages), 1) for operator in plan.operators)


@law_settings(100)
@given(flows(*WEIRD))
def test_names_take_one_line_and_can_be_printed(flow: tw.Dataflow) -> None:
    """Whatever names hold, there is one line for each operator and scope, below the title."""
    text = flow.explain()
    outline = description_of(flow).outline()
    scopes = {operator.scope for operator in outline.operators}
    around = {scope.parent for scope in scopes if scope.parent is not None}
    assert len(text.split("\n")) == 1 + len(outline.operators) + len((scopes | around) - {outline.root})
    assert text.replace("\n", "").isprintable()


@law_settings(50)
@given(flows())
def test_the_same_dataflow_gives_the_same_text(flow: tw.Dataflow) -> None:
    """And drawing changes nothing."""
    drawn = (flow.explain(), flow.explain(fused=True), flow.to_mermaid(), flow._repr_html_())
    assert drawn == (flow.explain(), flow.explain(fused=True), flow.to_mermaid(), flow._repr_html_())


def key_of(record: Any) -> Any:
    """Return the record."""
    return record


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("word", "by 'word'"),
        (("day", "word"), "by ('day', 'word')"),
        (key_of, "by key_of"),
        (str.lower, "by str.lower"),
        (itemgetter(0), "by itemgetter(0)"),
        (Counter(a=1).__getitem__, "by Counter.__getitem__"),
        (partial(max, 1), "by partial"),
    ],
)
def test_the_key_of_an_exchange_is_named(key: Any, text: str) -> None:
    """By the column, or by the function's name."""
    flow = tw.Dataflow("flow")
    flow.input("in").exchange(key)
    assert flow.explain().endswith(f"<= input in ({text})")


def test_other_ways_to_spread_records_are_named() -> None:
    """All to each, equal shares, equal records together, all to one."""
    flow = tw.Dataflow("flow")
    numbers = flow.input("in")
    numbers.broadcast(), numbers.rebalance(), numbers.distinct(), numbers.sort()
    found = [edge.pact.describe() for edge in description_of(flow).outline().edges() if edge.pact is not None]
    assert found == ["broadcast", "rebalance", "by the whole record", "to worker 0"]
    assert "<= input in (broadcast)" in flow.explain()
    assert "<= input in (to worker 0)" in flow.explain()


def test_a_lambda_is_told_by_its_line() -> None:
    """It has no name."""
    flow = tw.Dataflow("flow")
    flow.input("in").exchange(lambda record: record)
    assert re.search(r"<= input in \(by lambda in line \d+\)$", flow.explain())


def test_loops_in_loops_are_indented() -> None:
    """Each scope has a line of its own, which says where it is, and what is in it is further to the right."""
    flow = tw.Dataflow("flow")
    with flow.scope("outer") as outer, outer.inner("inner") as inner:
        back = outer.feedback()
        entered = flow.input("in").enter(outer).concat(back).enter(inner)
        left, right = flow.operator([entered], 2, build_pass, exchange=["key"], name="split")
        back.connect(left.leave())
        right.leave().leave().probe("done").publish("results")
    assert flow.explain().splitlines() == [
        "dataflow 'flow'",
        "  scope 'outer'",
        "    outer/feedback  <- outer/leave (goes back)",
        "    outer/enter     <- input in",
        "    outer/concat    <- outer/enter, <- outer/feedback",
        "    scope 'outer/inner'",
        "      outer/inner/enter  <- outer/concat",
        "      outer/inner/split  <= outer/inner/enter (by 'key')",
        "      outer/leave        <- outer/inner/split[0]",
        "      outer/leave-2      <- outer/inner/split[1]",
        "    leave           <- outer/leave-2  [probe 'done']",
        "  input in",
        "  publish results  <- leave",
    ]


def test_a_feedback_that_is_not_connected_is_no_error() -> None:
    """It is shown as what it is, so that one sees what is missing."""
    flow = tw.Dataflow("flow")
    flow.input("in").concat(flow.feedback())
    assert flow.explain().splitlines()[2] == "  feedback  <- (not connected)"


def test_an_empty_dataflow_has_a_title() -> None:
    """A notebook may show it before anything is in it."""
    assert tw.Dataflow("flow").explain() == "dataflow 'flow'"
