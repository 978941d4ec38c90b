"""A dataflow as text: one line for each operator, indented by scope, with what it reads."""

from collections.abc import Iterator
from dataclasses import replace

from tidewheel.progress import Source
from tidewheel.runtime.description.fusion import chains_of
from tidewheel.runtime.drawing.outline import Block, Edge, OperatorOutline, Outline, describe_pact

_WIDEST = 32
_INDENT = "  "


def text_of(outline: Outline, *, fused: bool = False) -> str:
    """Return the dataflow as text, the same each time. Linear.

    Args:
        outline: the dataflow.
        fused: show operators that run as one as one; otherwise each has a line of its own.
    """
    shown = _fused(outline) if fused else outline
    title = f"dataflow {outline.name!r}"
    return "\n".join([title, *_lines(shown, shown.blocks(), _INDENT)])


def printable(name: str) -> str:
    """Return a name as it is if it fits into a line, else quoted."""
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
