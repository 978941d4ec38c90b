"""The layout of a drawing: no two things overlap, and edges go round things that they do not join."""

from itertools import combinations, pairwise

from hypothesis import given

import tidewheel as tw
from tests.kit.runtime.drawing.random_flow import flows
from tests.laws.strategies import law_settings
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.outline import Outline
from tidewheel.runtime.drawing.layout import Box, Layout, Point, layout_of

NEAR = 1e-6


def laid_out(outline: Outline) -> Layout:
    """Return the layout for boxes of different sizes."""
    return layout_of(
        outline, [(30.0 + 7 * (index % 5), 20.0 + 9 * (index % 3)) for index in range(len(outline.operators))]
    )


def meet(one: Box, other: Box) -> bool:
    """Tell whether two rectangles have more than an edge in common."""
    return (
        one.x + one.width > other.x + NEAR
        and other.x + other.width > one.x + NEAR
        and one.y + one.height > other.y + NEAR
        and other.y + other.height > one.y + NEAR
    )


def holds(outer: Box, inner: Box) -> bool:
    """Tell whether a rectangle lies in another one."""
    return (
        outer.x <= inner.x + NEAR
        and outer.y <= inner.y + NEAR
        and inner.x + inner.width <= outer.x + outer.width + NEAR
        and inner.y + inner.height <= outer.y + outer.height + NEAR
    )


def around(one: Point, other: Point) -> Box:
    """Return the rectangle between two points of a way; a curve between them stays in it."""
    return Box(min(one[0], other[0]), min(one[1], other[1]), abs(one[0] - other[0]), abs(one[1] - other[1]))


@law_settings(200)
@given(flows())
def test_boxes_stand_apart_and_in_their_scopes(flow: tw.Dataflow) -> None:
    """Each operator is there, on nobody else; the box of a scope holds what is in the scope, and nothing else."""
    outline = description_of(flow).outline()
    layout = laid_out(outline)
    assert sorted(layout.operators) == list(range(len(outline.operators)))
    assert not any(meet(one, other) for one, other in combinations(layout.operators.values(), 2))
    whole = Box(0.0, 0.0, *layout.size)
    scopes = [box for _, box in layout.scopes]
    assert all(holds(whole, box) for box in [*layout.operators.values(), *scopes])
    assert all(holds(one, other) or holds(other, one) or not meet(one, other) for one, other in combinations(scopes, 2))
    for index, operator in enumerate(outline.operators):
        inside = sum(holds(box, layout.operators[index]) for box in scopes)
        assert inside == sum(meet(box, layout.operators[index]) for box in scopes) == operator.scope.nesting.depth


@law_settings(200)
@given(flows(entered_again=False))
def test_edges_go_round_what_they_have_nothing_to_do_with(flow: tw.Dataflow) -> None:
    """Each edge that is connected has a way, from its source to its target and through no other operator's box."""
    outline = description_of(flow).outline()
    layout = laid_out(outline)
    assert sorted((route.edge.operator, route.edge.port) for route in layout.routes) == [
        (edge.operator, edge.port) for edge in outline.edges() if edge.source is not None
    ]
    for route in layout.routes:
        assert route.edge.source is not None
        start, end = layout.operators[route.edge.source.operator], layout.operators[route.edge.operator]
        assert start.x < route.points[0][0] < start.x + start.width
        assert end.x < route.points[-1][0] < end.x + end.width
        assert (route.points[0][1], route.points[-1][1]) == (start.y + start.height, end.y)
        for one, other in pairwise(route.points):
            assert not any(meet(around(one, other), box) for box in layout.operators.values())


@law_settings(200)
@given(flows(entered_again=False))
def test_what_goes_on_goes_down(flow: tw.Dataflow) -> None:
    """Only what comes out of an operator that closes a loop goes up, on the right; no other edge ever does."""
    outline = description_of(flow).outline()
    closing = {edge.operator for edge in outline.edges() if edge.goes_back}
    for route in laid_out(outline).routes:
        if not route.around:
            assert all(one[1] <= other[1] + NEAR for one, other in pairwise(route.points))
        else:
            assert route.edge.source is not None
            assert route.edge.source.operator in closing


def test_a_chain_is_a_straight_line() -> None:
    """What needs no turn has none."""
    flow = tw.Dataflow("flow")
    flow.input("in").map(str).map(str).capture("out")
    layout = layout_of(description_of(flow).outline(), [(40.0, 20.0)] * 4)
    assert {point[0] for route in layout.routes for point in route.points} == {layout.size[0] / 2}


def test_an_empty_dataflow_has_a_layout() -> None:
    """It has only its margins."""
    assert layout_of(description_of(tw.Dataflow("flow")).outline(), []).operators == {}
