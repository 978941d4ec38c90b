"""The places of operators, scopes and edges in a drawing: layers from top to bottom, each scope a box of its own.

An edge moves sideways only between two layers, where nothing stands. What goes back goes round on the right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tidewheel.runtime.drawing.block_tree import BlockTree, LiftedEdge
from tidewheel.runtime.drawing.layers import Layers
from tidewheel.runtime.drawing.outline import Edge, Outline

Point: TypeAlias = tuple[float, float]
Size: TypeAlias = tuple[float, float]

_MARGIN = 16.0
_TITLE = 18.0
_TITLE_SIGN = 7.3
_BETWEEN_LAYERS = 34.0
_BETWEEN_LANES = 9.0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """The way of an edge: the points that it passes. It is ``around`` if it goes up, on the right of everything."""

    edge: Edge
    points: tuple[Point, ...]
    around: bool


@dataclass(slots=True)
class Layout:
    """A drawing: the boxes of operators by number, those of scopes from the outside in, and the ways of edges."""

    size: Size
    operators: dict[int, Box] = field(default_factory=dict)
    scopes: list[tuple[str, Box]] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)


def layout_of(outline: Outline, sizes: Sequence[Size]) -> Layout:
    """Return where everything is; ``sizes`` has width and height of each operator's box.

    Takes time linear in operators, edges, and the layers that edges pass; each operator's inputs count several times.
    """
    tree = BlockTree(outline)
    levels: dict[int, _Level] = {}
    for block in reversed(range(len(tree.blocks))):  # what is inside comes before what is around it
        inner = {item: sizes[item] if item >= 0 else levels[-item].size for item in tree.items[block]}
        levels[block] = _Level(tree, block, inner)
    layout = Layout(levels[0].size)
    _place(tree, levels, 0, (0.0, 0.0), layout)
    for level in levels.values():
        layout.routes += level.routes(outline, layout.operators)
    return layout


def _place(tree: BlockTree, levels: dict[int, "_Level"], block: int, corner: Point, layout: Layout) -> None:
    level = levels[block]
    level.corner = corner
    for item, (width, height) in level.sizes.items():
        box = Box(*level.place_of(item), width, height)
        if item >= 0:
            layout.operators[item] = box
        else:
            layout.scopes.append((tree.blocks[-item].scope.name, box))
            _place(tree, levels, -item, (box.x, box.y), layout)


class _Level:
    """A scope with what stands directly in it, by the numbers that `BlockTree` gives it."""

    def __init__(self, tree: BlockTree, block: int, sizes: dict[int, Size]) -> None:
        self.sizes = sizes
        self.corner = (0.0, 0.0)
        edges = tree.edges[block]
        self._down = [lifted for lifted in edges if tree.rank[lifted.start] < tree.rank[lifted.end]]
        self._around = [lifted for lifted in edges if tree.rank[lifted.start] >= tree.rank[lifted.end]]
        self._layers = Layers(
            {item: width for item, (width, _) in sizes.items()},
            [(lifted.start, lifted.end) for lifted in self._down],
            tree.entered[block],
            tree.left[block],
        )
        spare = _MARGIN if self._around else 0.0
        y = _MARGIN + spare + (_TITLE if block else 0.0)
        self._spans: list[tuple[float, float]] = []
        for row in self._layers.rows:
            height = max(sizes[node][1] for node in row if isinstance(node, int))
            self._spans.append((y, y + height))
            y += height + _BETWEEN_LAYERS
        content = self._layers.width + 2 * _MARGIN
        self._lanes_from = content
        title = _TITLE_SIGN * len(tree.blocks[block].scope.name) + _MARGIN if block else 0.0
        width = max(content + _BETWEEN_LANES * len(self._around), title)
        self.size = (width, (self._spans[-1][1] if self._spans else y) + _MARGIN + spare)

    def place_of(self, item: int) -> Point:
        """Return the left upper corner of an item."""
        x, y = self.corner
        left = self._layers.center[item] - self.sizes[item][0] / 2
        return x + _MARGIN + left, y + self._spans[self._layers.layer[item]][0]

    def routes(self, outline: Outline, boxes: dict[int, Box]) -> Iterator[Route]:
        """Yield the ways of the edges that have their ends in different items."""
        for number, lifted in enumerate(self._down):
            start, end = _ends(outline, lifted.edge, boxes)
            yield Route(lifted.edge, (start, *self._way_down(number, lifted, start, end), end), around=False)
        for number, lifted in enumerate(self._around):
            start, end = _ends(outline, lifted.edge, boxes)
            yield Route(lifted.edge, (start, *self._way_around(number, lifted, start, end), end), around=True)

    def _way_down(self, number: int, lifted: LiftedEdge, start: Point, end: Point) -> Iterator[Point]:
        x, y = self.corner
        first, last = self._layers.layer[lifted.start], self._layers.layer[lifted.end]
        yield start[0], y + self._spans[first][1]
        for layer in range(first + 1, last):
            lane = x + _MARGIN + self._layers.center[number, layer]
            yield from ((lane, y + edge) for edge in self._spans[layer])
        yield end[0], y + self._spans[last][0]

    def _way_around(self, number: int, lifted: LiftedEdge, start: Point, end: Point) -> Iterator[Point]:
        x, y = self.corner
        lane = x + self._lanes_from + _BETWEEN_LANES * number
        apart = 10.0 + 4.0 * (number % 4)
        below = y + self._spans[self._layers.layer[lifted.start]][1] + apart
        above = y + self._spans[self._layers.layer[lifted.end]][0] - apart
        yield from ((start[0], below), (lane, below), (lane, above), (end[0], above))


def _ends(outline: Outline, edge: Edge, boxes: dict[int, Box]) -> tuple[Point, Point]:
    """Return where an edge leaves one box at the bottom and reaches another at the top."""
    assert edge.source is not None, "what is not connected has no way"
    start, end = boxes[edge.source.operator], boxes[edge.operator]
    out = (edge.source.port + 1) / (outline.operators[edge.source.operator].outputs + 1)
    into = (edge.port + 1) / (len(outline.operators[edge.operator].sources) + 1)
    return (start.x + start.width * out, start.y + start.height), (end.x + end.width * into, end.y)
