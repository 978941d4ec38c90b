"""The outline of a dataflow, complete or not, for drawings and as text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any

from tidewheel.progress.graph import Source
from tidewheel.progress.redaction import redacted
from tidewheel.runtime.description.fusion import chains_of
from tidewheel.runtime.description.pacts import Exchange, Key, Pact
from tidewheel.runtime.description.scope import Scope

_WIDEST = 32
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class OperatorOutline:
    """One operator of a drawing.

    Attributes:
        name: the operator's unique name with scopes, as in errors.
        scope: the innermost scope of the ports, so that operators at the border of a loop belong to the loop.
        sources: the source of each input, None if it is not connected.
        pacts: the pact of each input; None if records stay on their worker.
        marks: the operator's other names, such as ``probe 'done'``.
    """

    name: str
    scope: Scope
    sources: tuple[Source | None, ...]
    pacts: tuple[Pact | None, ...]
    outputs: int
    is_stage: bool
    marks: tuple[str, ...]
    gathers: bool = False

    @property
    def short_name(self) -> str:
        scope = self.scope
        while scope.parent is not None:
            if self.name.startswith(f"{scope.path}/"):
                return self.name[len(scope.path) + 1 :]
            scope = scope.parent
        return self.name


@dataclass(frozen=True, slots=True)
class Edge:
    """One input and its source; the source of an unconnected input is None."""

    source: Source | None
    operator: int
    port: int
    pact: Pact | None
    is_gathered: bool = False

    @property
    def is_late(self) -> bool:
        """True if the source was described after the target."""
        return self.source is not None and self.source.operator >= self.operator

    @property
    def goes_back(self) -> bool:
        return self.is_late and not self.is_gathered


@dataclass(frozen=True, slots=True)
class Block:
    """A scope with its operators, by number, and its inner scopes, in the order of their description."""

    scope: Scope
    items: "list[int | Block]" = field(default_factory=list)

    @property
    def first(self) -> int:
        first = self.items[0]
        return first if isinstance(first, int) else first.first


@dataclass(frozen=True, slots=True)
class Outline:
    """All operators of a dataflow, by number; the outermost scope is ``root``."""

    name: str
    root: Scope
    operators: tuple[OperatorOutline, ...]

    def edges(self) -> list[Edge]:
        return [edge for index in range(len(self.operators)) for edge in self.edges_to(index)]

    def edges_to(self, index: int) -> list[Edge]:
        operator = self.operators[index]
        return [
            Edge(source, index, port, pact, operator.gathers)
            for port, (source, pact) in enumerate(zip(operator.sources, operator.pacts, strict=True))
        ]

    def blocks(self) -> Block:
        """Return the outermost block. An inner block is at the place of its first operator."""
        root = Block(self.root)
        known = {self.root: root}

        def block_of(scope: Scope) -> Block:
            found = known.get(scope)
            if found is None:
                found = known[scope] = Block(scope)
                assert scope.parent is not None, "every scope is within the dataflow's own"
                block_of(scope.parent).items.append(found)
            return found

        for index, operator in enumerate(self.operators):
            block_of(operator.scope).items.append(index)
        return root

    def output_name(self, source: Source) -> str:
        operator = self.operators[source.operator]
        return f"{operator.name}[{source.port}]" if operator.outputs > 1 else operator.name


def marks_by_operator(named: Mapping[str, Mapping[str, Any]], names: list[str]) -> dict[int, tuple[str, ...]]:
    """Return the marks of operators: further names, such as ``probe 'done'``.

    Args:
        named: for each kind (``"input"``, ``"probe"``) and name, the number of the operator, or an object with the
            number as ``operator``.
        names: the operators' names, by number. An operator called ``input numbers`` needs no mark.
    """
    marks: dict[int, list[str]] = {}
    for kind, known in named.items():
        for name, place in known.items():
            index = place if isinstance(place, int) else place.operator
            if kind == "probe" or not names[index].endswith(f" {name}"):
                marks.setdefault(index, []).append(redacted(f"{kind} {name!r}"))  # the name may be a path or URL
    return {index: tuple(said) for index, said in marks.items()}


def describe_pact(pact: Pact) -> str:
    """Describe a pact in words, such as ``by 'column'``, ``by key_of`` or ``broadcast``.

    >>> describe_pact(Exchange("word")), describe_pact(Exchange(("day", "word"))), describe_pact(Exchange(str.lower))
    ("by 'word'", "by ('day', 'word')", 'by str.lower')
    """
    return f"by {_describe_key(pact.key)}" if isinstance(pact, Exchange) else pact.describe()


def _describe_key(key: Key) -> str:
    if isinstance(key, str | tuple):
        return repr(key)
    if isinstance(key, itemgetter | attrgetter):
        return repr(key).removeprefix("operator.")
    name = str(getattr(key, "__qualname__", type(key).__qualname__)).rpartition("<locals>.")[2]
    code = getattr(key, "__code__", None)
    return f"lambda in line {code.co_firstlineno}" if name == "<lambda>" and code is not None else name


def text_of(outline: Outline, *, fused: bool = False) -> str:
    """Return the dataflow as text; equal dataflows have equal texts; linear."""
    shown = _fused(outline) if fused else outline
    title = f"dataflow {outline.name!r}"
    return "\n".join([title, *_lines(shown, shown.blocks(), _INDENT)])


def printable(name: str) -> str:
    """Return a name, quoted if it has characters that cannot be printed."""
    return name if name.isprintable() else repr(name)


def _lines(outline: Outline, block: Block, indent: str) -> Iterator[str]:
    names = [printable(outline.operators[item].name) for item in block.items if isinstance(item, int)]
    width = max((len(name) for name in names if len(name) <= _WIDEST), default=0)
    for item in block.items:
        if isinstance(item, Block):
            yield f"{indent}{item.scope.describe()}"
            yield from _lines(outline, item, indent + _INDENT)
        else:
            yield f"{indent}{_line(outline, item, width)}"


def _line(outline: Outline, index: int, width: int) -> str:
    operator = outline.operators[index]
    parts = [printable(operator.name).ljust(width)]
    if operator.sources:
        parts.append(", ".join(_edge(outline, edge) for edge in outline.edges_to(index)))
    parts += [f"[{mark}]" for mark in operator.marks]
    return "  ".join(parts).rstrip()


def _edge(outline: Outline, edge: Edge) -> str:
    if edge.source is None:
        return "<- (not connected)"
    name = printable(outline.output_name(edge.source))
    if edge.pact is not None:
        return f"<= {name} ({describe_pact(edge.pact)})"
    return f"<- {name}{' (goes back)' * edge.goes_back}"


def _fused(outline: Outline) -> Outline:
    chains = chains_of(outline.operators)
    place = {index: number for number, chain in enumerate(chains.values()) for index in chain}

    def moved(source: Source | None) -> Source | None:
        return None if source is None else Source(place[source.operator], source.port)

    def joined(chain: list[int]) -> OperatorOutline:
        parts = [outline.operators[index] for index in chain]
        return replace(
            parts[0],
            name=" > ".join(part.name for part in parts),
            sources=tuple(map(moved, parts[0].sources)),
            marks=tuple(mark for part in parts for mark in part.marks),
        )

    return replace(outline, operators=tuple(map(joined, chains.values())))
