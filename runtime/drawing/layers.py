"""One level of a drawing: what stands in which layer, in which order, and how far to the right.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures", IEEE Transactions
on Systems, Man, and Cybernetics 11 (1981): layers, lanes for long edges, and order by means of neighbours.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import TypeAlias

Node: TypeAlias = int | tuple[int, int]
"""An item, by its number, or the lane of an edge over a layer that it passes: (number of the edge, layer)."""

GAP = 18.0
LANE_WIDTH = 8.0
_SWEEPS = 6


class Layers:
    """Items in layers, so that every edge leads further down.

    Args:
        widths: how wide each item is. Items are numbered in an order in which all edges lead to later ones.
        edges: pairs of items.
        first: items that belong as far up as they can be.
        last: items that belong into the last layer if no edge leads on from them.

    Attributes:
        layer: the layer of each item.
        rows: what stands in each layer, from left to right.
        center: the middle of each item and lane, from the left.
        width: of all.
    """

    def __init__(
        self,
        widths: Sequence[float],
        edges: Sequence[tuple[int, int]],
        first: Collection[int] = (),
        last: Collection[int] = (),
    ) -> None:
        self._widths = widths
        self.layer = _layers(len(widths), edges, first, last)
        self.rows: list[list[Node]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for item, layer in enumerate(self.layer):
            self.rows[layer].append(item)
        self._above: dict[Node, list[Node]] = {}
        self._below: dict[Node, list[Node]] = {}
        for number, (start, end) in enumerate(edges):
            self._add_lanes(number, start, end)
        self._order_rows()
        self.center: dict[Node, float] = {}
        self._place()
        left = min((center - self._width(node) / 2 for node, center in self.center.items()), default=0.0)
        self.center = {node: center - left for node, center in self.center.items()}
        self.width = max((center + self._width(node) / 2 for node, center in self.center.items()), default=0.0)

    def _add_lanes(self, number: int, start: int, end: int) -> None:
        lanes: list[Node] = [(number, layer) for layer in range(self.layer[start] + 1, self.layer[end])]
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

    def _set_apart(self, row: list[Node], wished: list[float]) -> None:
        """Place a row in its order and without overlaps, as near as may be to where each node would like to be."""
        places: list[float] = []
        free = -inf
        for node, wish in zip(row, wished, strict=True):
            half = self._width(node) / 2
            places.append(max(wish, free + half))
            free = places[-1] + half + GAP
        shift = _mean(wish - place for wish, place in zip(wished, places, strict=True))
        self.center.update((node, place + shift) for node, place in zip(row, places, strict=True))

    def _width(self, node: Node) -> float:
        return self._widths[node] if isinstance(node, int) else LANE_WIDTH


def _layers(items: int, edges: Sequence[tuple[int, int]], first: Collection[int], last: Collection[int]) -> list[int]:
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
