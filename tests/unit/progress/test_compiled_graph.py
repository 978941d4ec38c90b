from tidewheel.progress import (
    ROOT,
    CompiledGraph,
    GraphShape,
    IntegerDomain,
    OperatorShape,
    PathSummary,
    Source,
    Target,
)

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
    assert ITERATE.summaries(Source(2, 0), Source(2, 0)) == (PathSummary.identity(LOOP),)
    assert ITERATE.summaries(Source(0, 0), Source(0, 0)) == (PathSummary.identity(ROOT),)


def test_paths_through_a_loop() -> None:
    """Into, round and out of a loop, and nowhere against the edges."""
    assert ITERATE.summaries(Source(0, 0), Target(2, 1)) == (PathSummary(ROOT, LOOP, (0,), (1,)),)
    assert ITERATE.summaries(Target(2, 1), Target(2, 1)) == (PathSummary.identity(LOOP),)
    assert ITERATE.summaries(Source(2, 0), Target(2, 1)) == (PathSummary.advance(LOOP, 1),)
    assert ITERATE.summaries(Target(3, 0), Source(4, 0)) == (PathSummary.leave(LOOP),)
    assert ITERATE.summaries(Source(4, 0), Source(0, 0)) == ()
    assert ITERATE.summaries(Target(2, 1), Target(2, 0)) == ()


def test_unordered_paths_are_all_kept() -> None:
    """Of two ways, one that costs a round and one that costs an epoch, neither makes the other superfluous."""
    epoch, once = PathSummary(LOOP, LOOP, (1, 0)), PathSummary.advance(LOOP, 1)
    graph = GraphShape(
        (OperatorShape("either", (LOOP,), (LOOP,), {(0, 0): (epoch, once, PathSummary.advance(LOOP, 2))}),), ()
    )
    assert set(CompiledGraph(graph).summaries(Target(0, 0), Source(0, 0))) == {epoch, once}


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
    assert CompiledGraph(graph).summaries(Source(0, 0), Source(2, 0)) == SAME


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
    assert set(graph.summaries(Source(2, 0), Source(2, 0))) == {
        PathSummary.identity(LOOP),
        PathSummary(LOOP, LOOP, (1,), (0,)),
    }


def test_paths_that_let_nothing_pass_are_left_out() -> None:
    """A loop bounded to two rounds leads on only for as many."""
    few = ROOT.inside(IntegerDomain(maximum=1))
    step = OperatorShape("step", (few,), (few,), {(0, 0): (PathSummary.advance(few, 1),)})
    graph = CompiledGraph(GraphShape((step, step), ((Source(0, 0), Target(1, 0)),)))
    assert graph.summaries(Target(0, 0), Target(1, 0)) == (PathSummary.advance(few, 1),)
    assert graph.summaries(Target(0, 0), Source(1, 0)) == ()
    assert Target(0, 0) not in graph.reaching(Source(1, 0))


def test_summaries_are_computed_once() -> None:
    """Asking again for a destination gives what was found the first time."""
    assert ITERATE.reaching(Source(4, 0)) is ITERATE.reaching(Source(4, 0))


def test_locations_have_numbers() -> None:
    """Locations are numbered operator by operator, inputs before outputs."""
    assert ITERATE.locations[:4] == (Source(0, 0), Target(1, 0), Source(1, 0), Target(2, 0))
    assert ITERATE.index[Target(2, 0)] == 3
