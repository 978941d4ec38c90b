"""The news of one worker about substreams, and its order."""

from tidewheel.progress import ROOT, CompiledGraph, GraphShape, OperatorShape, PathSummary, Target
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.declared import DeclaredSubstreams
from tidewheel.runtime.messages.labels import Label
from tidewheel.runtime.messages.news import SubstreamNews
from tidewheel.runtime.substreams.books import TELLER, SubstreamBooks

NEAR, FAR = Target(1, 0), Target(2, 0)
A, B = (0, "a"), (0, "b")


def books_of(worker: int, workers: int, heard: list[SubstreamNews]) -> tuple[SubstreamBooks, dict[Target, int]]:
    """Return the books of a worker, and the numbers of two inputs of which only the one behind asks for an order."""
    graph = GraphShape(
        (
            OperatorShape("input", (), (ROOT,), {}),
            OperatorShape("near", (ROOT,), (ROOT,), {(0, 0): (PathSummary.identity(ROOT),)}),
            OperatorShape("far", (ROOT,), (), {}),
        ),
        ((Source(0, 0), NEAR), (Source(1, 0), FAR)),
    )
    compiled = CompiledGraph(graph)
    declared = DeclaredSubstreams("keys", Source(0, 0), True, (NEAR, FAR), (FAR,))
    numbers = {target: compiled.index[target] for target in (NEAR, FAR)}
    return SubstreamBooks(compiled, [declared], worker, workers, heard.append), numbers


def told(books: SubstreamBooks) -> list[Label]:
    """Return the substreams of which worker 0 is told, in order, when there is nothing more to do."""
    news = books.commit(out_of_work=True)[TELLER]
    return [(changes.declaration, key) for changes in news.changes for key in changes.keys]


def test_a_key_that_is_used_again_is_told_in_the_order_in_which_it_is_closed() -> None:
    """Also where something that came to nothing has happened to what had the key before, and is not told of yet."""
    books, number = books_of(1, 2, [])
    books.close(0, ["a"])
    assert told(books) == [A]
    books.record(A, number[NEAR], 0, 1)
    books.record(A, number[NEAR], 0, -1)
    assert books.commit(out_of_work=False) == {}
    books.receive(SubstreamNews(over={0: ["a"]}))
    books.close(0, ["b"])
    books.close(0, ["a"])
    assert told(books) == [B, A]


def test_ends_are_in_order_where_that_was_asked_for_beside_ends_where_it_was_not() -> None:
    """The substream that was closed first, and ends last at an input that asks for no order, is first at the other."""
    heard: list[SubstreamNews] = []
    books, number = books_of(0, 1, heard)
    for label in (A, B):
        books.record(label, number[NEAR], 0, 1)
        books.close(0, [label[1]])
    books.commit(out_of_work=True)
    for label in (B, A):
        books.record(label, number[NEAR], 0, -1)
    books.commit(out_of_work=True)
    assert heard[-1].ends == {number[NEAR]: ["b", "a"], number[FAR]: ["a", "b"]}
