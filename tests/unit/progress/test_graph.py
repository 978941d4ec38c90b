import pytest

from tests.kit.messages import raises
from tests.laws.domains import BITEMPORAL as DAYS
from tests.laws.domains import Bitemporal
from tidewheel.progress import (
    ROOT,
    CompiledGraph,
    GraphError,
    GraphShape,
    IntegerDomain,
    Nesting,
    OperatorShape,
    PathSummary,
    Step,
    Target,
)
from tidewheel.progress.graph import Source

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
    with raises(GraphError):
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


def shape_with(path: PathSummary) -> OperatorShape:
    return OperatorShape("back", (path.source,), (path.target,), {(0, 0): (path,)})


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (PathSummary.advance(ROOT, -1), "t becomes t + -1, goes back in time"),
        (PathSummary.advance(LOOP, -2), "(t, r) becomes (t, r + -2), goes back in time"),
        (PathSummary(LOOP, ROOT, (-1,)), "(t, r) becomes t + -1, goes back in time"),
        (PathSummary(LOOP, LOOP, (-1, 1)), "(t, r) becomes (t + -1, r + 1), goes back in time"),
        (PathSummary(Nesting((DAYS,)), Nesting((DAYS,)), (Bitemporal(1, -1),)), "goes back in time"),
        (PathSummary.advance(ROOT, 0.5), "makes of 0 what is no time"),
        (PathSummary(ROOT, LOOP, (0,), (-1,)), "appends what is no time"),
        (PathSummary.advance(ROOT, "1"), "has '1', which is no summary of IntegerDomain() as 0 is"),
        (PathSummary.advance(Nesting((DAYS,)), 1), "has 1, which is no summary of BitemporalDomain("),
    ],
)
def test_a_summary_that_goes_back_is_refused(path: PathSummary, shown: str) -> None:
    """A summary only advances times, in each coordinate and by its domain's own order; the error names the path."""
    with pytest.raises(GraphError) as refusal:
        shape_with(path)
    assert str(refusal.value).startswith("operator 'back': the summary of the path from input 0 to output 0, ")
    assert shown in str(refusal.value)


def test_summaries_at_and_above_the_identity_are_taken() -> None:
    """Advances of several coordinates are fine, also by domains of the user's, and past a greatest time."""
    few = ROOT.inside(IntegerDomain(maximum=3))
    days = Nesting((DAYS,))
    for path in (
        PathSummary(LOOP, LOOP, (1, 0)),
        PathSummary(LOOP, LOOP, (0,), (0,)),
        PathSummary.advance(few, 9),
        PathSummary.advance(days, Bitemporal(0, 1)),
    ):
        assert shape_with(path).summaries[0, 0] == (path,)


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
