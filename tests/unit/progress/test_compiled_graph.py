import pytest

from tidewheel.progress import (
    ROOT,
    CompiledGraph,
    GraphShape,
    IntegerDomain,
    Location,
    Nesting,
    OperatorShape,
    PathSummary,
    Target,
    Tracker,
)
from tidewheel.progress.compiled_graph import Reachability
from tidewheel.progress.graph import Source

LOOP = ROOT.inside(IntegerDomain())
SAME = (PathSummary.identity(LOOP),)

ITERATE = CompiledGraph(
    GraphShape(
        (
            OperatorShape("input", (), (ROOT,), {}),
            OperatorShape("enter", (ROOT,), (LOOP,), {(0, 0): (PathSummary.enter(LOOP),)}),
            OperatorShape("body", (LOOP, LOOP), (LOOP,), {(0, 0): SAME, (1, 0): SAME}),
            OperatorShape("feedback", (LOOP,), (LOOP,), {(0, 0): (PathSummary.advance(LOOP, 1),)}),
            OperatorShape("leave", (LOOP,), (ROOT,), {(0, 0): (PathSummary.leave(LOOP),)}),
        ),
        (
            (Source(0, 0), Target(1, 0)),
            (Source(1, 0), Target(2, 0)),
            (Source(2, 0), Target(3, 0)),
            (Source(3, 0), Target(2, 1)),
            (Source(2, 0), Target(4, 0)),
        ),
    )
)


def test_a_location_reaches_itself_by_the_path_of_no_steps() -> None:
    """In a loop too, the shortest way to where one is counts, and the rounds add nothing."""
    assert ITERATE.reaching(Source(2, 0)).get(Source(2, 0), ()) == (PathSummary.identity(LOOP),)
    assert ITERATE.reaching(Source(0, 0)).get(Source(0, 0), ()) == (PathSummary.identity(ROOT),)


def test_paths_through_a_loop() -> None:
    """Into, round and out of a loop, and nowhere against the edges."""
    assert ITERATE.reaching(Target(2, 1)).get(Source(0, 0), ()) == (PathSummary(ROOT, LOOP, (0,), (1,)),)
    assert ITERATE.reaching(Target(2, 1)).get(Target(2, 1), ()) == (PathSummary.identity(LOOP),)
    assert ITERATE.reaching(Target(2, 1)).get(Source(2, 0), ()) == (PathSummary.advance(LOOP, 1),)
    assert ITERATE.reaching(Source(4, 0)).get(Target(3, 0), ()) == (PathSummary.leave(LOOP),)
    assert ITERATE.reaching(Source(0, 0)).get(Source(4, 0), ()) == ()
    assert ITERATE.reaching(Target(2, 0)).get(Target(2, 1), ()) == ()


def test_unordered_paths_are_all_kept() -> None:
    """Of two ways, one that costs a round and one that costs an epoch, neither makes the other superfluous."""
    epoch, once = PathSummary(LOOP, LOOP, (1, 0)), PathSummary.advance(LOOP, 1)
    graph = GraphShape(
        (OperatorShape("either", (LOOP,), (LOOP,), {(0, 0): (epoch, once, PathSummary.advance(LOOP, 2))}),), ()
    )
    assert set(CompiledGraph(graph).reaching(Source(0, 0)).get(Target(0, 0), ())) == {epoch, once}


def test_a_better_path_found_later_replaces_the_worse() -> None:
    """The short way that costs two rounds gives way to the long one that costs none."""
    graph = GraphShape(
        (
            OperatorShape("input", (), (LOOP,), {}),
            OperatorShape("long", (LOOP,), (LOOP,), {(0, 0): SAME}),
            OperatorShape("join", (LOOP, LOOP), (LOOP,), {(0, 0): (PathSummary.advance(LOOP, 2),), (1, 0): SAME}),
        ),
        ((Source(0, 0), Target(2, 0)), (Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 1))),
    )
    assert CompiledGraph(graph).reaching(Source(2, 0)).get(Source(0, 0), ()) == SAME


def test_a_path_out_and_in_again_is_kept_beside_the_direct_one() -> None:
    """A later epoch's round 0 is not after this epoch's round 5, so the way through the outside counts as well."""
    graph = CompiledGraph(
        GraphShape(
            (
                OperatorShape("leave", (LOOP,), (ROOT,), {(0, 0): (PathSummary.leave(LOOP),)}),
                OperatorShape("feedback", (ROOT,), (ROOT,), {(0, 0): (PathSummary.advance(ROOT, 1),)}),
                OperatorShape("enter", (ROOT,), (LOOP,), {(0, 0): (PathSummary.enter(LOOP),)}),
            ),
            ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 0)), (Source(2, 0), Target(0, 0))),
        )
    )
    assert set(graph.reaching(Source(2, 0)).get(Source(2, 0), ())) == {
        PathSummary.identity(LOOP),
        PathSummary(LOOP, LOOP, (1,), (0,)),
    }


def test_paths_that_let_nothing_pass_are_left_out() -> None:
    """A loop bounded to two rounds leads on only for as many."""
    few = ROOT.inside(IntegerDomain(maximum=1))
    step = OperatorShape("step", (few,), (few,), {(0, 0): (PathSummary.advance(few, 1),)})
    graph = CompiledGraph(GraphShape((step, step), ((Source(0, 0), Target(1, 0)),)))
    assert graph.reaching(Target(1, 0)).get(Target(0, 0), ()) == (PathSummary.advance(few, 1),)
    assert graph.reaching(Source(1, 0)).get(Target(0, 0), ()) == ()
    assert Target(0, 0) not in graph.reaching(Source(1, 0))


def test_summaries_are_computed_once() -> None:
    """Asking again for a destination gives what was found the first time."""
    assert ITERATE.reaching(Source(4, 0)) is ITERATE.reaching(Source(4, 0))


def test_locations_have_numbers() -> None:
    """Locations are numbered operator by operator, inputs before outputs."""
    assert ITERATE.locations[:4] == (Source(0, 0), Target(1, 0), Source(1, 0), Target(2, 0))
    assert ITERATE.index[Target(2, 0)] == 3


LOOP = ROOT.inside(IntegerDomain())


def passing(name: str, nesting: Nesting, inputs: int = 1) -> OperatorShape:
    same = (PathSummary.identity(nesting),)
    return OperatorShape(name, (nesting,) * inputs, (nesting,), {(port, 0): same for port in range(inputs)})


def chain(length: int) -> CompiledGraph:
    """Return an input and so many operators after it."""
    operators = [OperatorShape("input", (), (ROOT,), {}), *(passing(f"step-{n}", ROOT) for n in range(length))]
    edges = ((Source(number, 0), Target(number + 1, 0)) for number in range(length))
    return CompiledGraph(GraphShape(tuple(operators), tuple(edges)))


def loop(length: int, feedbacks: int = 1) -> CompiledGraph:
    """Return a loop of so many operators in a row, with feedbacks from the last to the first."""
    head = passing("head", LOOP, 1 + feedbacks)
    body = [passing(f"step-{n}", LOOP) for n in range(length)]
    back = OperatorShape("feedback", (LOOP,), (LOOP,), {(0, 0): (PathSummary.advance(LOOP, 1),)})
    edges = [(Source(number, 0), Target(number + 1, 0)) for number in range(length)]
    edges += [(Source(length, 0), Target(length + n, 0)) for n in range(1, feedbacks + 1)]
    edges += [(Source(length + n, 0), Target(0, n)) for n in range(1, feedbacks + 1)]
    return CompiledGraph(GraphShape((head, *body, *[back] * feedbacks), tuple(edges)))


def targets(compiled: CompiledGraph) -> list[Location]:
    return [location for location in compiled.locations if isinstance(location, Target)]


def size(reach: Reachability) -> int:
    """Return how many passages there are."""
    tables = (*reach.entries.values(), *reach.onward)
    return sum(len(passages) for passages in tables)


@pytest.mark.parametrize("length", [100, 1000])
def test_a_chain_of_notifying_operators_has_a_table_as_long_as_itself(length: int) -> None:
    """Each gets counts from the port before it, and the frontier of the operator before it: no table of pairs."""
    compiled = chain(length)
    reach = Reachability(compiled, targets(compiled))
    assert len(reach.stations) == length
    assert size(reach) <= 3 * length
    assert max(len(passages) for passages in reach.onward) == 1


@pytest.mark.parametrize("feedbacks", [1, 3])
@pytest.mark.parametrize("length", [50, 500])
def test_a_loop_of_notifying_operators_has_a_table_as_long_as_itself(length: int, feedbacks: int) -> None:
    """Only the heads get every count in the loop; the others get frontiers from one to the next, once round."""
    compiled = loop(length, feedbacks)
    reach = Reachability(compiled, targets(compiled))
    assert size(reach) <= (3 + 3 * feedbacks) * (length + 10)


@pytest.mark.parametrize("length", [50, 500])
def test_a_loop_with_one_operator_of_interest_has_a_small_table(length: int) -> None:
    """Each location in it leads to that one."""
    compiled = loop(length)
    reach = Reachability(compiled, [Target(7, 0)])
    assert len(reach.stations) == 1
    assert size(reach) <= len(compiled.locations)


def test_stations_come_after_those_that_bear_on_them() -> None:
    """A frontier only travels from a lower rank to a higher one, so that each is settled once."""
    for compiled in (chain(30), loop(30), loop(5, 3)):
        for interesting in (compiled.locations, targets(compiled), compiled.locations[3:9]):
            reach = Reachability(compiled, interesting)
            assert all(passage.rank > rank for rank, passages in enumerate(reach.onward) for passage in passages)
            assert {compiled.index[location] for location in interesting} == reach.asked <= set(reach.stations)


def test_the_same_locations_of_interest_are_prepared_once() -> None:
    """A job that is looked at again and again does not search its graph each time."""
    compiled = loop(5)
    reach = compiled.reachability(targets(compiled))
    assert compiled.reachability(reversed(list(targets(compiled)))) is reach
    assert compiled.reachability(compiled.locations) is not reach
    assert reach.asked == {compiled.index[location] for location in targets(compiled)}


def test_what_covers_a_location_lies_before_it() -> None:
    """In a chain the location of interest just before covers; before the first there is none."""
    compiled = chain(5)
    reach = Reachability(compiled, [Source(0, 0), Target(3, 0)])
    covering = {
        location: [compiled.locations[reach.stations[passage.rank]] for passage in reach.covers(number)]
        for number, location in enumerate(compiled.locations)
    }
    assert covering[Source(0, 0)] == [Source(0, 0)]
    assert covering[Source(2, 0)] == [Source(0, 0)]
    assert set(covering[Target(3, 0)]) == {Source(0, 0), Target(3, 0)}
    assert covering[Source(5, 0)] == [Target(3, 0)]


def test_the_way_out_and_in_again_counts_beside_the_direct_one() -> None:
    """A frontier that is carried on takes all unordered ways: a later epoch's round 0 comes from outside the loop."""
    compiled = CompiledGraph(
        GraphShape(
            (
                passing("before", LOOP),
                passing("inside", LOOP, 2),
                OperatorShape("leave", (LOOP,), (ROOT,), {(0, 0): (PathSummary.leave(LOOP),)}),
                OperatorShape("next epoch", (ROOT,), (ROOT,), {(0, 0): (PathSummary.advance(ROOT, 1),)}),
                OperatorShape("enter", (ROOT,), (LOOP,), {(0, 0): (PathSummary.enter(LOOP),)}),
            ),
            (
                (Source(0, 0), Target(1, 0)),
                (Source(0, 0), Target(2, 0)),
                (Source(2, 0), Target(3, 0)),
                (Source(3, 0), Target(4, 0)),
                (Source(4, 0), Target(1, 1)),
            ),
        )
    )
    first, last = Target(0, 0), Source(1, 0)
    tracker = Tracker(compiled, 0, [first, last])
    tracker.update([((compiled.index[first], (4, 5)), 1)])
    assert list(tracker.frontier(first)) == [(4, 5)]
    assert set(tracker.frontier(last)) == {(4, 5), (5, 0)}
    tracker.update([((compiled.index[first], (4, 5)), -1)])
    assert len(tracker.frontier(last)) == 0


def test_a_location_of_interest_that_nothing_reaches() -> None:
    """Its frontier is empty from the beginning, and stays so."""
    alone = OperatorShape("sink", (ROOT,), (), {})
    compiled = CompiledGraph(GraphShape((alone,), ()))
    tracker = Tracker(compiled, 3, [Target(0, 0)])
    assert len(tracker.frontier(Target(0, 0))) == 0
    assert tracker.update([((0, 4), 1)]) == {0}
    assert list(tracker.frontier(Target(0, 0))) == [4]
