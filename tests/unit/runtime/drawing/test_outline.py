"""Outlines: what is shown of a dataflow while it is described."""

import pytest

import tidewheel as tw
from tidewheel.operators.records.batchwise import build_pass
from tidewheel.progress import Source
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.pacts import Exchange
from tidewheel.runtime.drawing.outline import Block, Edge, OperatorOutline


@pytest.fixture
def flow() -> tw.Dataflow:
    return tw.Dataflow("flow")


def named(flow: tw.Dataflow, name: str) -> OperatorOutline:
    """Return the outline of an operator."""
    return next(operator for operator in description_of(flow).outline().operators if operator.name == name)


def test_an_operator_is_as_it_was_described(flow: tw.Dataflow) -> None:
    """Its inputs, how records come to them, how many outputs it has, and whether it may run as one with others."""
    numbers = flow.input("numbers")
    flow.operator("split", [numbers, numbers.map(abs)], 2, build_pass, exchange=[None, "key"])
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
    numbers.unary("input more", build_pass)
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
