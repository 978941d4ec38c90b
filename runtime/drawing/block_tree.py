"""The scopes of a dataflow as a tree, and each of its edges at the level on which it goes from one thing to another."""

from dataclasses import dataclass
from itertools import pairwise, takewhile

from tidewheel.runtime.drawing.outline import Block, Edge, Outline


@dataclass(frozen=True, slots=True)
class LiftedEdge:
    """An edge as the innermost scope around both its ends sees it: from one item to another."""

    start: int
    end: int
    edge: Edge


class BlockTree:
    """Scopes by number, the outermost is 0, each before those within it.

    An item of a scope is an operator, by its number, or a scope, by its own number made negative.

    Attributes:
        blocks: the scopes.
        items: what is directly in each, in order of rank.
        edges: for each scope the edges between two of its items.
        entered, left: for each scope the items at which edges come in from outside and go out.
        rank: of each item: an edge that goes on leads to a greater one; what closes a loop comes after everything else.
    """

    def __init__(self, outline: Outline) -> None:
        self.blocks: list[Block] = []
        self.rank: dict[int, int] = {}
        self.items: list[list[int]] = []
        self._paths: dict[int, tuple[int, ...]] = {}
        """To each operator, the scopes around it, as items, and itself."""
        self._closing = {edge.operator for edge in outline.edges() if edge.goes_back}
        self._add(outline.blocks(), (), len(outline.operators))
        self.edges: list[list[LiftedEdge]] = [[] for _ in self.blocks]
        self.entered: list[set[int]] = [set() for _ in self.blocks]
        self.left: list[set[int]] = [set() for _ in self.blocks]
        for edge in outline.edges():
            if edge.source is not None:
                self._lift(edge, self._paths[edge.source.operator], self._paths[edge.operator])

    def _add(self, block: Block, path: tuple[int, ...], behind: int) -> None:
        """Number a scope and what is in it; ``path`` has the scope and those around it, as items."""
        self.blocks.append(block)
        items: list[int] = []
        self.items.append(items)
        for part in block.items:
            if isinstance(part, Block):
                item = -len(self.blocks)
                self._add(part, (*path, item), behind)
                self.rank[item] = part.first
            else:
                item = part
                self.rank[item] = part + behind * (part in self._closing)
                self._paths[item] = (*path, item)
            items.append(item)
        items.sort(key=self.rank.__getitem__)

    def _lift(self, edge: Edge, start: tuple[int, ...], end: tuple[int, ...]) -> None:
        """Put an edge where the paths to its ends part."""
        same = takewhile(lambda pair: pair[0] == pair[1], zip(start[:-1], end[:-1], strict=False))
        depth = sum(1 for _ in same)
        around = -start[depth - 1] if depth else 0
        self.edges[around].append(LiftedEdge(start[depth], end[depth], edge))
        for scope, item in pairwise(start[depth:]):
            self.left[-scope].add(item)
        for scope, item in pairwise(end[depth:]):
            self.entered[-scope].add(item)
