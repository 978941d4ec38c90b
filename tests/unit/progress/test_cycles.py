import pytest

from tests.kit.messages import raises
from tidewheel.progress import (
    ROOT,
    CompiledGraph,
    GraphError,
    GraphShape,
    IntegerDomain,
    Nesting,
    OperatorShape,
    PathSummary,
    Target,
    UnitDomain,
)
from tidewheel.progress.cycles import strong_components
from tidewheel.progress.graph import Source

LOOP = ROOT.inside(IntegerDomain())
INNER = LOOP.inside(IntegerDomain())


def operator(name: str, *paths: PathSummary) -> OperatorShape:
    """Return an operator with one input, one output and the given paths between them."""
    return OperatorShape(name, (paths[0].source,), (paths[0].target,), {(0, 0): paths})


def ring(*operators: OperatorShape) -> GraphShape:
    """Connect operators one after the other, and the last to the first."""
    count = len(operators)
    return GraphShape(operators, tuple((Source(index, 0), Target((index + 1) % count, 0)) for index in range(count)))


def feedback(nesting: Nesting) -> OperatorShape:
    """Return the operator that closes a loop of ``nesting``."""
    return operator("feedback", PathSummary.advance(nesting, 1))


def test_the_error_shows_the_way_round_and_the_way_out() -> None:
    """The message names every port round the cycle, in order, and says how to close a loop."""
    graph = ring(operator("map", PathSummary.identity(ROOT)), operator("filter", PathSummary.identity(ROOT)))
    with pytest.raises(GraphError) as refusal:
        CompiledGraph(graph)
    message = str(refusal.value)
    assert message.endswith(
        ". A message could go round it forever at one time. Close the cycle with scope.feedback(), in the scope in "
        "which the whole cycle lies, so that each time round is a later round"
    )
    shown = message.removeprefix("a cycle does not advance time: ").split(". ")[0].split(" -> ")
    around = ["input 0 of 'map'", "output 0 of 'map'", "input 0 of 'filter'", "output 0 of 'filter'"]
    first = around.index(shown[0])
    assert shown == [*around[first:], *around[:first], shown[0]]


def test_an_operator_fed_by_itself_is_refused_and_shown() -> None:
    """The shortest cycle there is: one operator, one edge."""
    with raises(GraphError):
        CompiledGraph(ring(operator("map", PathSummary.identity(ROOT))))


def test_feedback_makes_a_cycle_sound() -> None:
    """A cycle with one step that advances the scope it lies in is accepted."""
    CompiledGraph(ring(operator("map", PathSummary.identity(LOOP)), feedback(LOOP)))
    CompiledGraph(ring(operator("map", PathSummary.identity(ROOT)), feedback(ROOT)))


def test_one_idle_path_through_an_operator_is_enough_to_refuse() -> None:
    """Of two paths through one operator, one that advances does not excuse the other."""
    both = operator("maybe", PathSummary.advance(LOOP, 1), PathSummary.identity(LOOP))
    with raises(GraphError):
        CompiledGraph(ring(operator("map", PathSummary.identity(LOOP)), both))


def test_no_path_through_an_operator_is_no_cycle() -> None:
    """Edges that lead round are no cycle if an operator lets nothing through."""
    CompiledGraph(ring(operator("map", PathSummary.identity(ROOT)), OperatorShape("stop", (ROOT,), (ROOT,), {})))


def test_an_inner_advance_is_lost_on_the_way_out() -> None:
    """Enter, feed back inside, leave, and back in with no feedback outside: the round is forgotten, so refused."""
    inside = feedback(LOOP)
    graph = ring(operator("enter", PathSummary.enter(LOOP)), inside, operator("leave", PathSummary.leave(LOOP)))
    with raises(GraphError) as refusal:
        CompiledGraph(graph)
    assert all(f"'{name}'" in str(refusal.value) for name in ("enter", "feedback", "leave"))


def test_an_outer_feedback_makes_up_for_the_lost_inner_advance() -> None:
    """The same way round with a feedback outside is sound, with or without the one inside."""
    enter, leave = operator("enter", PathSummary.enter(LOOP)), operator("leave", PathSummary.leave(LOOP))
    CompiledGraph(ring(enter, feedback(LOOP), leave, feedback(ROOT)))
    CompiledGraph(ring(enter, leave, feedback(ROOT)))


def test_an_inner_loop_in_an_outer_loop_needs_both_feedbacks() -> None:
    """Each of two nested loops must advance in its own scope."""

    def nested(outer: PathSummary, inner: PathSummary) -> GraphShape:
        enter = OperatorShape("enter", (LOOP,), (INNER,), {(0, 0): (PathSummary.enter(INNER),)})
        body = OperatorShape(
            "body", (INNER, INNER), (INNER,), dict.fromkeys([(0, 0), (1, 0)], (PathSummary.identity(INNER),))
        )
        return GraphShape(
            (
                enter,
                body,
                operator("inner", inner),
                operator("leave", PathSummary.leave(INNER)),
                operator("outer", outer),
            ),
            (
                (Source(0, 0), Target(1, 0)),
                (Source(1, 0), Target(2, 0)),
                (Source(2, 0), Target(1, 1)),
                (Source(1, 0), Target(3, 0)),
                (Source(3, 0), Target(4, 0)),
                (Source(4, 0), Target(0, 0)),
            ),
        )

    CompiledGraph(nested(PathSummary.advance(LOOP, 1), PathSummary.advance(INNER, 1)))
    with raises(GraphError) as refusal:
        CompiledGraph(nested(PathSummary.advance(LOOP, 1), PathSummary.identity(INNER)))
    assert "'outer'" not in str(refusal.value)
    with raises(GraphError) as refusal:
        CompiledGraph(nested(PathSummary.identity(LOOP), PathSummary.advance(INNER, 1)))
    assert "'inner'" not in str(refusal.value)


def test_an_outer_coordinate_may_advance_inside() -> None:
    """A step deep inside that advances the outer coordinate serves a cycle through the outside too."""
    deep = operator("epoch", PathSummary(LOOP, LOOP, (1, 0)))
    CompiledGraph(ring(operator("enter", PathSummary.enter(LOOP)), deep, operator("leave", PathSummary.leave(LOOP))))


def test_a_round_forgotten_inside_one_operator_does_not_count() -> None:
    """An operator that starts again from round 0, as leaving and entering does, undoes what a feedback advanced."""
    again = PathSummary.leave(LOOP).followed_by(PathSummary.enter(LOOP))
    assert again is not None
    with raises(GraphError):
        CompiledGraph(ring(feedback(LOOP), operator("again", again)))


def test_a_scope_whose_coordinate_never_advances_cannot_loop() -> None:
    """In a scope of one time there is no later round."""
    unit = ROOT.inside(UnitDomain())
    with raises(GraphError):
        CompiledGraph(ring(operator("map", PathSummary.advance(unit, ()))))


def test_a_long_cycle_is_searched_without_recursion() -> None:
    """A cycle of thousands of operators is found, and one that advances is accepted."""
    maps = [operator(f"map-{index}", PathSummary.identity(LOOP)) for index in range(2000)]
    CompiledGraph(ring(*maps, feedback(LOOP)))
    with raises(GraphError):
        CompiledGraph(ring(*maps))


def test_no_nodes() -> None:
    """An empty graph has no component."""
    assert strong_components([], lambda node: []) == {}


def test_a_node_that_leads_to_itself() -> None:
    """It is a component like any other single node."""
    assert strong_components([1, 2], {1: [1, 1], 2: []}.__getitem__) == {1: 0, 2: 1}


def test_nodes_that_are_only_reached() -> None:
    """What can be reached is numbered, though it was not named."""
    assert strong_components(["a"], {"a": ["b"], "b": []}.__getitem__) == {"b": 0, "a": 1}


def test_a_long_chain_and_a_long_ring() -> None:
    """A hundred thousand nodes in a row do not go as deep as Python can call."""
    number = 100_000
    chain = strong_components(range(number), lambda node: [node + 1] if node + 1 < number else [])
    assert [chain[0], chain[number - 1]] == [number - 1, 0]
    ring = strong_components(range(number), lambda node: [(node + 1) % number])
    assert set(ring.values()) == {0}


def test_successors_are_asked_for_once() -> None:
    """Linear in nodes and edges: in a dense graph as well."""
    asked: list[int] = []

    def successors(node: int) -> range:
        asked.append(node)
        return range(200)

    assert set(strong_components(range(200), successors).values()) == {0}
    assert sorted(asked) == list(range(200))
