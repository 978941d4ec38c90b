"""Random dataflow graphs as people write them: chains, branches that join again, and loops, in each other."""

from random import Random

from tidewheel.progress import ROOT, GraphShape, IntegerDomain, Nesting, OperatorShape, PathSummary, Target
from tidewheel.progress.graph import Source


class NestedGraph:
    """Adds one segment after another to a graph that begins with an input."""

    def __init__(self, random: Random, segments: int) -> None:
        self._random = random
        self._left = segments
        self._operators: list[OperatorShape] = []
        self._edges: list[tuple[Source, Target]] = []

    def build(self) -> GraphShape:
        """Return a graph of at most as many segments, one or two inputs, and a chain of segments after each."""
        ends = [self._chain(self._add("input", (), ROOT, []), ROOT) for _ in range(self._random.randint(1, 2))]
        if len(ends) == 2:
            self._add("join", (ROOT, ROOT), ROOT, ends)
        return GraphShape(tuple(self._operators), tuple(self._edges))

    def _add(
        self,
        name: str,
        inputs: tuple[Nesting, ...],
        output: Nesting,
        sources: list[Source],
        path: PathSummary | None = None,
    ) -> Source:
        number = len(self._operators)
        summaries = {
            (port, 0): (path if path is not None else PathSummary.identity(output),) for port in range(len(inputs))
        }
        self._operators.append(OperatorShape(f"{name}-{number}", inputs, (output,), summaries))
        self._edges += [(source, Target(number, port)) for port, source in enumerate(sources)]
        return Source(number, 0)

    def _chain(self, stream: Source, nesting: Nesting) -> Source:
        for _ in range(self._random.randint(1, 4)):
            if self._left > 0:
                self._left -= 1
                stream = self._segment(stream, nesting)
        return stream

    def _segment(self, stream: Source, nesting: Nesting) -> Source:
        kind = self._random.choice(("operator", "operator", "branch", "loop", "loop", "loop"))
        if kind == "loop" and nesting.depth < 3:
            return self._loop(stream, nesting)
        if kind == "branch":
            left, right = self._chain(stream, nesting), self._chain(stream, nesting)
            return self._add("join", (nesting, nesting), nesting, [left, right])
        return self._add("operator", (nesting,), nesting, [stream])

    def _loop(self, stream: Source, nesting: Nesting) -> Source:
        inner = nesting.inside(IntegerDomain())
        entered = self._add("enter", (nesting,), inner, [stream], PathSummary.enter(inner))
        feedbacks = self._random.choice((1, 1, 2))
        head = len(self._operators)
        looped = self._add("head", (inner,) * (1 + feedbacks), inner, [entered])
        ends = []
        for port in range(1, 1 + feedbacks):
            ends.append(self._chain(looped, inner))
            rounds = PathSummary.advance(inner, self._random.choice((1, 1, 2)))
            back = self._add("feedback", (inner,), inner, [ends[-1]], rounds)
            self._edges.append((back, Target(head, port)))
        leaving = self._random.choice([looped, *ends])
        return self._add("leave", (inner,), nesting, [leaving], PathSummary.leave(inner))


def nested_graph(random: Random) -> GraphShape:
    """Return a random graph of nested loops."""
    return NestedGraph(random, random.randint(1, 7)).build()
