"""A dataflow as a flowchart for Mermaid, which GitHub, GitLab and many editors draw.

Scopes are boxes, exchanges are thick edges with their key, and edges back to the start of a loop are dotted.

Source: Mermaid's documentation, "Flowcharts - Basic Syntax".
"""

from collections.abc import Iterator
from itertools import count

from tidewheel.runtime.description.outline import Block, Edge, Outline, describe_pact

_INDENT = "  "
_PLAIN = frozenset(" _-,./'=+")


def mermaid_of(outline: Outline) -> str:
    lines = ["flowchart TD", *_nodes(outline, outline.blocks(), _INDENT, count())]
    lines += [f"{_INDENT}{_edge(outline, edge)}" for edge in outline.edges()]
    for index, operator in enumerate(outline.operators):
        lines += [f"{_INDENT}n{index} -.- f{index}_{number}" for number in range(len(operator.marks))]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Return a text for use in a quoted label: special characters of Mermaid and HTML become numbers.

    >>> escaped('say "hi" <b>')
    'say #34;hi#34; #60;b#62;'
    """
    shown = text if text.isprintable() else repr(text)[1:-1]
    return "".join(sign if sign.isalnum() or sign in _PLAIN else f"#{ord(sign)};" for sign in shown)


def _nodes(outline: Outline, block: Block, indent: str, numbers: Iterator[int]) -> Iterator[str]:
    for item in block.items:
        if isinstance(item, Block):
            yield f'{indent}subgraph s{next(numbers)}["{escaped(item.scope.name)}"]'
            yield from _nodes(outline, item, indent + _INDENT, numbers)
            yield f"{indent}end"
        else:
            yield from (indent + line for line in _node(outline, item))


def _node(outline: Outline, index: int) -> Iterator[str]:
    operator = outline.operators[index]
    name = escaped(operator.short_name)
    if not operator.sources:
        yield f'n{index}(["{name}"])'
    else:
        yield f'n{index}["{name}"]' if operator.outputs else f'n{index}[["{name}"]]'
    yield from (f'u{index}_{port}(("?"))' for port, source in enumerate(operator.sources) if source is None)
    yield from (f'f{index}_{number}>"{escaped(mark)}"]' for number, mark in enumerate(operator.marks))


def _edge(outline: Outline, edge: Edge) -> str:
    target = f"n{edge.operator}"
    if edge.source is None:
        return f'u{edge.operator}_{edge.port} -.->|"not connected"| {target}'
    arrow = "-.->" if edge.goes_back else "==>" if edge.pact is not None else "-->"
    labels = []
    if outline.operators[edge.source.operator].outputs > 1:
        labels.append(f"output {edge.source.port}")
    if edge.pact is not None:
        labels.append(describe_pact(edge.pact))
    label = f'|"{escaped("; ".join(labels))}"|' if labels else ""
    return f"n{edge.source.operator} {arrow}{label} {target}"
