"""The layout of a drawing: operators in layers from top to bottom, and each scope a box.

An edge moves sideways only between two layers. Edges that lead back up run on the right.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures", IEEE Transactions
on Systems, Man, and Cybernetics 11 (1981).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from math import inf
from typing import TypeAlias

from tidewheel.runtime.description.outline import Block, Edge, Outline
from tidewheel.runtime.description.scope import Scope

Point: TypeAlias = tuple[float, float]
Size: TypeAlias = tuple[float, float]

_Node: TypeAlias = int | tuple[int, int]
"""An item, by its place; or the lane of an edge through a layer that it crosses: (number of the edge, layer)."""

_GAP = 18.0
_LANE_WIDTH = 8.0
_SWEEPS = 6
_MARGIN = 16.0
_TITLE = 18.0
_TITLE_SIGN = 7.3
_BETWEEN_LAYERS = 34.0
_BETWEEN_LANES = 9.0


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """The points of an edge. ``around`` tells whether the edge leads up, on the right of the drawing."""

    edge: Edge
    points: tuple[Point, ...]
    around: bool


@dataclass(slots=True)
class Layout:
    """A drawing: boxes of operators by number, boxes of scopes, outer scopes first, and routes of edges."""

    size: Size
    operators: dict[int, Box] = field(default_factory=dict)
    scopes: list[tuple[Scope, Box]] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)


def layout_of(outline: Outline, sizes: Sequence[Size]) -> Layout:
    """Return the layout; ``sizes`` has width and height of each operator's box.

    Linear in the operators, the edges and the layers that edges cross, times the inputs of an operator.
    """
    edges, behind = outline.edges(), len(outline.operators)
    closing = {edge.operator for edge in edges if edge.goes_back}
    gathered = _gathered(edges)
    ranks = [index + behind * ((index in closing) + 2 * (index in gathered)) for index in range(behind)]
    levels: list[_Level] = []
    root = _Level(outline.blocks(), ranks, (), levels)
    home = {item: level for level in levels for item in level.items if isinstance(item, int)}
    for edge in edges:
        if edge.source is not None:
            _lift(edge, edge.source.operator, home[edge.source.operator], home[edge.operator])
    for level in reversed(levels):  # inner levels come before outer ones
        level.arrange(sizes)
    layout = Layout(root.size)
    root.place((0.0, 0.0), layout)
    for level in reversed(levels):
        layout.routes += level.routes(outline, layout.operators)
    return layout


def _gathered(edges: Sequence[Edge]) -> set[int]:
    """Return the operators to show last: those that read from later operators, and those after them."""
    found = {edge.operator for edge in edges if edge.is_late and edge.is_gathered}
    for edge in edges:
        if edge.source is not None and edge.source.operator in found and not edge.is_late:
            found.add(edge.operator)
    return found


@dataclass(frozen=True, slots=True)
class _Lifted:
    """An edge in the innermost scope that contains both its ends, as a connection between two items of that scope."""

    start: int
    end: int
    edge: Edge


class _Level:
    """A scope with its direct items.

    Args:
        ranks: the rank of each operator. Forward edges lead to greater ranks; operators that close a loop have the
            greatest.
        around: the outer levels, the outermost first.

    Attributes:
        items: operators by number, and levels, sorted by rank. Edges refer to an item by its index.
    """

    size: Size

    def __init__(
        self, block: Block, ranks: Sequence[int], around: "tuple[_Level, ...]", levels: "list[_Level]"
    ) -> None:
        levels.append(self)
        self.block = block
        self.path = (*around, self)
        parts = [_Level(item, ranks, self.path, levels) if isinstance(item, Block) else item for item in block.items]
        self.items = sorted(parts, key=lambda item: ranks[item] if isinstance(item, int) else item.block.first)
        self.place_of = {item: place for place, item in enumerate(self.items)}
        self.edges: list[_Lifted] = []
        self.entered: set[int] = set()
        self.left: set[int] = set()

    def arrange(self, sizes: Sequence[Size]) -> None:
        self._sizes = [sizes[item] if isinstance(item, int) else item.size for item in self.items]
        self._down = [lifted for lifted in self.edges if lifted.start < lifted.end]
        self._around = [lifted for lifted in self.edges if lifted.start >= lifted.end]
        self._layers = _Layers(
            [width for width, _ in self._sizes],
            [(lifted.start, lifted.end) for lifted in self._down],
            self.entered,
            self.left,
        )
        spare = _MARGIN if self._around else 0.0
        is_titled = len(self.path) > 1
        y = _MARGIN + spare + (_TITLE if is_titled else 0.0)
        self._spans: list[tuple[float, float]] = []
        for row in self._layers.rows:
            height = max(self._sizes[node][1] for node in row if isinstance(node, int))
            self._spans.append((y, y + height))
            y += height + _BETWEEN_LAYERS
        self._lanes_from = self._layers.width + 2 * _MARGIN
        title = _TITLE_SIGN * len(self.block.scope.name) + _MARGIN if is_titled else 0.0
        width = max(self._lanes_from + _BETWEEN_LANES * len(self._around), title)
        self.size = (width, (self._spans[-1][1] if self._spans else y) + _MARGIN + spare)

    def place(self, corner: Point, layout: Layout) -> None:
        self._corner = corner
        for place, (item, (width, height)) in enumerate(zip(self.items, self._sizes, strict=True)):
            left = self._layers.center[place] - width / 2
            box = Box(corner[0] + _MARGIN + left, corner[1] + self._spans[self._layers.layer[place]][0], width, height)
            if isinstance(item, int):
                layout.operators[item] = box
            else:
                layout.scopes.append((item.block.scope, box))
                item.place((box.x, box.y), layout)

    def routes(self, outline: Outline, boxes: dict[int, Box]) -> Iterator[Route]:
        for number, lifted in enumerate(self._down):
            start, end = _ends(outline, lifted.edge, boxes)
            yield Route(lifted.edge, (start, *self._way_down(number, lifted, start, end), end), around=False)
        for number, lifted in enumerate(self._around):
            start, end = _ends(outline, lifted.edge, boxes)
            yield Route(lifted.edge, (start, *self._way_around(number, lifted, start, end), end), around=True)

    def _way_down(self, number: int, lifted: _Lifted, start: Point, end: Point) -> Iterator[Point]:
        x, y = self._corner
        first, last = self._layers.layer[lifted.start], self._layers.layer[lifted.end]
        yield start[0], y + self._spans[first][1]
        for layer in range(first + 1, last):
            lane = x + _MARGIN + self._layers.center[number, layer]
            yield from ((lane, y + edge) for edge in self._spans[layer])
        yield end[0], y + self._spans[last][0]

    def _way_around(self, number: int, lifted: _Lifted, start: Point, end: Point) -> Iterator[Point]:
        x, y = self._corner
        lane = x + self._lanes_from + _BETWEEN_LANES * number
        apart = 10.0 + 4.0 * (number % 4)
        below = y + self._spans[self._layers.layer[lifted.start]][1] + apart
        above = y + self._spans[self._layers.layer[lifted.end]][0] - apart
        yield from ((start[0], below), (lane, below), (lane, above), (end[0], above))


def _lift(edge: Edge, source: int, start: _Level, end: _Level) -> None:
    starts: tuple[_Level | int, ...] = (*start.path, source)
    ends: tuple[_Level | int, ...] = (*end.path, edge.operator)
    depth = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(start.path, end.path, strict=False)))
    level = start.path[depth - 1]
    level.edges.append(_Lifted(level.place_of[starts[depth]], level.place_of[ends[depth]], edge))
    for inner, item in zip(start.path[depth:], starts[depth + 1 :], strict=True):
        inner.left.add(inner.place_of[item])
    for inner, item in zip(end.path[depth:], ends[depth + 1 :], strict=True):
        inner.entered.add(inner.place_of[item])


def _ends(outline: Outline, edge: Edge, boxes: dict[int, Box]) -> tuple[Point, Point]:
    assert edge.source is not None, "an edge without a source has no way"
    start, end = boxes[edge.source.operator], boxes[edge.operator]
    out = (edge.source.port + 1) / (outline.operators[edge.source.operator].outputs + 1)
    into = (edge.port + 1) / (len(outline.operators[edge.operator].sources) + 1)
    return (start.x + start.width * out, start.y + start.height), (end.x + end.width * into, end.y)


class _Layers:
    """Items in layers, so that every edge leads down.

    Args:
        widths: the width of each item. Every edge leads to a later item.
        last: the items that go into the last layer if no edge leaves them.

    Attributes:
        rows: the nodes of each layer, from left to right.
    """

    def __init__(
        self,
        widths: Sequence[float],
        edges: Sequence[tuple[int, int]],
        first: Collection[int] = (),
        last: Collection[int] = (),
    ) -> None:
        self._widths = widths
        self.layer = _layers_of(len(widths), edges, first, last)
        self.rows: list[list[_Node]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for item, layer in enumerate(self.layer):
            self.rows[layer].append(item)
        self._above: dict[_Node, list[_Node]] = {}
        self._below: dict[_Node, list[_Node]] = {}
        for number, (start, end) in enumerate(edges):
            self._add_lanes(number, start, end)
        self._order_rows()
        self.center: dict[_Node, float] = {}
        self._place()
        left = min((center - self._width(node) / 2 for node, center in self.center.items()), default=0.0)
        self.center = {node: center - left for node, center in self.center.items()}
        self.width = max((center + self._width(node) / 2 for node, center in self.center.items()), default=0.0)

    def _add_lanes(self, number: int, start: int, end: int) -> None:
        lanes: list[_Node] = [(number, layer) for layer in range(self.layer[start] + 1, self.layer[end])]
        for layer, lane in enumerate(lanes, self.layer[start] + 1):
            self.rows[layer].append(lane)
        for upper, lower in pairwise([start, *lanes, end]):
            self._below.setdefault(upper, []).append(lower)
            self._above.setdefault(lower, []).append(upper)

    def _order_rows(self) -> None:
        place = {node: float(index) for row in self.rows for index, node in enumerate(row)}
        for sweep in range(_SWEEPS):
            near, rows = (self._below, self.rows[::-1]) if sweep % 2 else (self._above, self.rows)
            for row in rows:
                row.sort(key=lambda node: _mean(place[other] for other in near.get(node, (node,))))
                place.update((node, float(index)) for index, node in enumerate(row))

    def _place(self) -> None:
        for row in self.rows:
            self._set_apart(row, [0.0] * len(row))
        for sweep in range(_SWEEPS):
            near, rows = (self._below, self.rows[::-1]) if sweep % 2 else (self._above, self.rows)
            for row in rows:
                self._set_apart(row, [_mean(self.center[other] for other in near.get(node, (node,))) for node in row])

    def _set_apart(self, row: list[_Node], wished: list[float]) -> None:
        """Place the nodes of a row in order and without overlaps, as near as possible to the desired places."""
        places: list[float] = []
        free = -inf
        for node, wish in zip(row, wished, strict=True):
            half = self._width(node) / 2
            places.append(max(wish, free + half))
            free = places[-1] + half + _GAP
        shift = _mean(wish - place for wish, place in zip(wished, places, strict=True))
        self.center.update((node, place + shift) for node, place in zip(row, places, strict=True))

    def _width(self, node: _Node) -> float:
        return self._widths[node] if isinstance(node, int) else _LANE_WIDTH


def _layers_of(
    items: int, edges: Sequence[tuple[int, int]], first: Collection[int], last: Collection[int]
) -> list[int]:
    before: list[list[int]] = [[] for _ in range(items)]
    after: list[list[int]] = [[] for _ in range(items)]
    for start, end in edges:
        before[end].append(start)
        after[start].append(end)
    layer: list[int] = []
    for starts in before:
        layer.append(max((layer[start] + 1 for start in starts), default=0))
    bottom = max(layer, default=0)
    for item in last:
        if not after[item]:
            layer[item] = bottom
    for item in range(items):
        if not before[item] and after[item] and item not in first:
            layer[item] = min(layer[other] for other in after[item]) - 1
    return layer


def _mean(values: Iterable[float]) -> float:
    taken = list(values)
    return sum(taken) / len(taken)
