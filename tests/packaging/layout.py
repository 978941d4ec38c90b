"""The circles in which modules import each other."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from tests.packaging.repository import FACADE, ROOT, imports_of, name_of, shipped_modules

LARGEST_CIRCLE = 2


def import_circles() -> list[list[str]]:
    """The groups of more than two modules that import each other, directly or not, for types too; largest first."""
    modules = {_dotted(path): path for path in shipped_modules()}
    edges = {name: _imported(name, path, modules) for name, path in modules.items()}
    found = [sorted(name_of(modules[name]) for name in group) for group in strongly_connected(edges)]
    return sorted((group for group in found if len(group) > LARGEST_CIRCLE), key=lambda group: (-len(group), group))


def _dotted(path: Path) -> str:
    place = path.relative_to(FACADE if path.parent == FACADE else ROOT).with_suffix("")
    return ".".join(("tidewheel", *(part for part in place.parts if part != "__init__")))


def _imported(importer: str, path: Path, modules: dict[str, Path]) -> set[str]:
    found = set()
    for imported in imports_of(path):
        name = imported.name
        while name and name not in modules:
            name = name.rpartition(".")[0]
        found.add(name)
    return found - {"", importer}


def strongly_connected(edges: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of a graph with more than one node. Source: Kosaraju and Sharir."""
    order: list[str] = []
    _visit(sorted(edges), edges, order.append)
    backwards: dict[str, set[str]] = defaultdict(set)
    for start, ends in edges.items():
        for end in ends:
            backwards[end].add(start)
    seen: set[str] = set()
    groups = []
    for root in reversed(order):
        group: list[str] = []
        _visit([root], backwards, group.append, seen)
        groups.append(set(group))
    return [group for group in groups if len(group) > 1]


def _visit(
    roots: list[str], edges: dict[str, set[str]], leave: Callable[[str], None], seen: set[str] | None = None
) -> None:
    """Walk depth first from each root to what is not seen, and call `leave` for a node after those it leads to."""
    seen = set() if seen is None else seen
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(sorted(edges.get(root, ()))))]
        while path:
            node, rest = path[-1]
            following = next((end for end in rest if end not in seen), None)
            if following is None:
                path.pop()
                leave(node)
            else:
                seen.add(following)
                path.append((following, iter(sorted(edges.get(following, ())))))
