import pytest

from tidewheel.progress import (
    ROOT,
    CompiledGraph,
    GraphError,
    GraphShape,
    IntegerDomain,
    OperatorShape,
    PathSummary,
    Source,
    Step,
    Target,
)

LOOP = ROOT.inside(IntegerDomain())
INPUT = OperatorShape("numbers", (), (ROOT,), {})
ENTER = OperatorShape("enter", (ROOT,), (LOOP,), {(0, 0): (PathSummary.enter(LOOP),)})
PROBE = OperatorShape("probe", (ROOT, LOOP), (), {})


def test_an_edge_between_scopes_is_refused() -> None:
    """An edge into a loop that does not enter it is refused; the error names both ports and the way out."""
    with pytest.raises(GraphError) as refusal:
        GraphShape((INPUT, PROBE), ((Source(0, 0), Target(1, 1)),))
    assert str(refusal.value) == (
        "output 0 of 'numbers' and input 1 of 'probe' are in different scopes: enter or leave the loop between them"
    )


def test_loops_of_other_kinds_of_round_are_different_scopes() -> None:
    """An edge between loops of the same depth whose rounds have other domains is refused."""
    few = ROOT.inside(IntegerDomain(maximum=3))
    with pytest.raises(GraphError, match="are in different scopes"):
        GraphShape(
            (OperatorShape("a", (), (LOOP,), {}), OperatorShape("b", (few,), (), {})), ((Source(0, 0), Target(1, 0)),)
        )


@pytest.mark.parametrize("ports", [(1, 0), (0, 1), (-1, 0), (0, -1)])
def test_a_summary_of_a_port_that_is_not_there_is_refused(ports: tuple[int, int]) -> None:
    """An operator may only summarise paths between ports that it has."""
    with pytest.raises(GraphError) as refusal:
        OperatorShape("map", (ROOT,), (ROOT,), {ports: (PathSummary.identity(ROOT),)})
    assert str(refusal.value) == (
        f"operator 'map' summarises a path from input {ports[0]} to output {ports[1]}, "
        "but it has 1 inputs and 1 outputs"
    )


@pytest.mark.parametrize("path", [PathSummary.identity(LOOP), PathSummary.enter(LOOP), PathSummary.leave(LOOP)])
def test_a_summary_of_other_scopes_is_refused(path: PathSummary) -> None:
    """A summary must start and end where its ports are; the error names the operator and the ports."""
    with pytest.raises(GraphError) as refusal:
        OperatorShape("map", (ROOT, ROOT), (ROOT,), {(0, 0): (PathSummary.identity(ROOT),), (1, 0): (path,)})
    assert str(refusal.value) == (
        "operator 'map': the summary of the path from input 1 to output 0 does not start and end in the scopes of "
        "these ports"
    )


def test_locations_and_steps() -> None:
    """Locations come operator by operator, inputs first; steps are the edges and the operators' internal paths."""
    graph = GraphShape((INPUT, ENTER, PROBE), ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 1))))
    assert list(graph.locations()) == [Source(0, 0), Target(1, 0), Source(1, 0), Target(2, 0), Target(2, 1)]
    assert list(graph.steps()) == [
        Step(Source(0, 0), Target(1, 0), PathSummary.identity(ROOT)),
        Step(Source(1, 0), Target(2, 1), PathSummary.identity(LOOP)),
        Step(Target(1, 0), Source(1, 0), PathSummary.enter(LOOP)),
    ]
    assert graph.nesting(Target(2, 1)) == LOOP
    assert graph.nesting(Target(2, 0)) == ROOT
    assert graph.describe(Source(1, 0)) == "output 0 of 'enter'"
    assert graph.describe(Target(2, 1)) == "input 1 of 'probe'"


def test_an_output_is_no_input() -> None:
    """Ports of the same numbers on both sides of an operator are different locations."""
    locations: set[Source | Target] = {Source(1, 0), Target(1, 0), Source(1, 0)}
    assert len(locations) == 2


def test_messages_for_each_worker_can_be_counted_apart() -> None:
    """Such an input is a location for each worker, the further ones behind all; all have the same edges and paths."""
    edges = ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 1)))
    graph = GraphShape((INPUT, ENTER, PROBE), edges, frozenset({Target(1, 0), Target(2, 1)}), workers=3)
    plain = GraphShape((INPUT, ENTER, PROBE), edges)
    more = [Target(1, 0, 1), Target(1, 0, 2), Target(2, 1, 1), Target(2, 1, 2)]
    assert list(graph.locations()) == [*plain.locations(), *more]
    steps = list(graph.steps())
    for worker in range(3):
        entering, reading = graph.target(1, 0, worker), graph.target(2, 1, worker)
        assert (entering, reading) == (Target(1, 0, worker), Target(2, 1, worker))
        assert Step(Source(0, 0), entering, PathSummary.identity(ROOT)) in steps
        assert Step(entering, Source(1, 0), PathSummary.enter(LOOP)) in steps
        assert Step(Source(1, 0), reading, PathSummary.identity(LOOP)) in steps
    assert len(steps) == 9
    assert graph.target(2, 0, 1) == Target(2, 0), "this one is the same for all workers"
    compiled = CompiledGraph(graph)
    assert [compiled.locations[number] for number in compiled.together] == [
        *plain.locations(),
        *(Target(at.operator, at.port) for at in more),
    ]
