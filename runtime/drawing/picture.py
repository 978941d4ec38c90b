"""A dataflow as an SVG picture for notebooks, without scripts and external files."""

from collections.abc import Iterator
from html import escape
from itertools import pairwise
from unicodedata import east_asian_width

from tidewheel.runtime.description.outline import OperatorOutline, Outline, describe_pact, text_of
from tidewheel.runtime.description.scope import Scope
from tidewheel.runtime.drawing.layout import Box, Layout, Point, Route, Size, layout_of

_MOST_DRAWN = 300
_MOST_ON_PAGE = 2000
_LONGEST = 44
_NAME_SIGN, _NAME_LINE = 7.3, 16.0
_NOTE_SIGN, _NOTE_LINE = 6.1, 13.0
_ARROW = 6.0
_FOR_NUMBERS = (150.0, 32.0)
_FONT = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_FILLS = {"input": "#dff3e4", "output": "#dde9fb", "usual": "#ffffff"}


def picture_of(outline: Outline) -> str:
    if len(outline.operators) > _MOST_DRAWN:
        return f"<pre>{escape(text_of(outline))}</pre>"
    return f'<div style="overflow:auto">{_drawn(outline)}</div>'


def svg_of(outline: Outline) -> str:
    """Return the uncoloured picture, for a page that colours its parts; empty above 2,000 operators.

    Each operator has room for two lines of numbers. The attributes ``data-operator`` and ``data-edge`` have numbers of
    the `Outline`, ``data-scope`` the path of a scope. Each part begins on a new line, as the page expects.
    """
    return "" if len(outline.operators) > _MOST_ON_PAGE else _drawn(outline, _FOR_NUMBERS)


def _drawn(outline: Outline, room: Size = (0.0, 0.0)) -> str:
    notes = [list(_notes(operator)) for operator in outline.operators]
    sizes = [_size(operator, said, room) for operator, said in zip(outline.operators, notes, strict=True)]
    layout = layout_of(outline, sizes)
    parts = [f"<title>{_text(f'dataflow {outline.name!r}')}</title>", *map(_scope, layout.scopes)]
    numbers = {(edge.operator, edge.port): number for number, edge in enumerate(outline.edges())}
    parts += [_edge(outline, route, numbers[route.edge.operator, route.edge.port]) for route in layout.routes]
    parts += [_operator(index, outline.operators[index], box, notes[index]) for index, box in layout.operators.items()]
    return _svg(layout, parts)


def _svg(layout: Layout, parts: list[str]) -> str:
    width, height = (f"{side:.0f}" for side in layout.size)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return "\n".join([f'{head} style="background:#fff;{_FONT}">', *parts, "</svg>"])


def _notes(operator: OperatorOutline) -> Iterator[str]:
    for port, (source, pact) in enumerate(zip(operator.sources, operator.pacts, strict=True)):
        where = f"input {port} " if len(operator.sources) > 1 else ""
        if source is None:
            yield f"{where}not connected"
        elif pact is not None:
            yield f"{where}{describe_pact(pact)}"
    yield from operator.marks


def _size(operator: OperatorOutline, notes: list[str], room: Size) -> Size:
    widths = [_NAME_SIGN * _signs(operator.short_name), *(_NOTE_SIGN * _signs(note) for note in notes)]
    return max(max(widths) + 20.0, room[0]), _NAME_LINE + _NOTE_LINE * len(notes) + 10.0 + room[1]


def _operator(number: int, operator: OperatorOutline, box: Box, notes: list[str]) -> str:
    kind = "input" if not operator.sources else "usual" if operator.outputs else "output"
    middle = box.x + box.width / 2
    border = ' stroke="#b00020" stroke-dasharray="4 3"' if None in operator.sources else ' stroke="#555"'
    lines = [_line(middle, box.y + 16.0, operator.short_name, 'font-size="12"')]
    for place, note in enumerate(notes, 1):
        lines.append(_line(middle, box.y + 15.0 + _NOTE_LINE * place, note, 'font-size="10" fill="#555"'))
    shape = f'{_rectangle(box)} rx="4" fill="{_FILLS[kind]}"{border}/>'
    return f'<g data-operator="{number}"><title>{_text(operator.name)}</title>{shape}{"".join(lines)}</g>'


def _scope(placed: tuple[Scope, Box]) -> str:
    scope, box = placed
    label = (
        f'<text x="{box.x + 8.0:.1f}" y="{box.y + 16.0:.1f}" font-size="12" fill="#6b4e00">{_text(scope.name)}</text>'
    )
    shape = f'{_rectangle(box)} rx="8" fill="#f0b400" fill-opacity="0.08" stroke="#c79a1b"/>'
    return f'<g data-scope="{_text(scope.path)}">{shape}{label}</g>'


def _edge(outline: Outline, route: Route, number: int) -> str:
    edge = route.edge
    assert edge.source is not None, "an edge without a source has no way"
    x, y = route.points[-1]
    line = (*route.points[:-1], (x, y - _ARROW))
    steps = "".join(_step(start, end, route.around) for start, end in pairwise(line))
    style = "3" if edge.pact is not None else "1.2"
    style += '" stroke-dasharray="5 4' if route.around or edge.goes_back else ""
    start = f"M{line[0][0]:.1f} {line[0][1]:.1f}"
    head = f'<path d="M{x - 4:.1f} {y - _ARROW - 2:.1f}h8l-4 {_ARROW + 2}z" fill="#444"/>'
    title = f"{outline.output_name(edge.source)} → {outline.operators[edge.operator].name}"
    title += f", {describe_pact(edge.pact)}" if edge.pact is not None else ""
    path = f'<path d="{start}{steps}" fill="none" stroke="#444" stroke-linejoin="round" stroke-width="{style}"/>'
    return f'<g data-edge="{number}"><title>{_text(title)}</title>{path}{head}</g>'


def _step(start: Point, end: Point, straight: bool) -> str:
    if straight or start[0] == end[0]:
        return f"L{end[0]:.1f} {end[1]:.1f}"
    middle = (start[1] + end[1]) / 2
    return f"C{start[0]:.1f} {middle:.1f} {end[0]:.1f} {middle:.1f} {end[0]:.1f} {end[1]:.1f}"


def _rectangle(box: Box) -> str:
    return f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'


def _line(middle: float, y: float, text: str, style: str) -> str:
    return f'<text x="{middle:.1f}" y="{y:.1f}" text-anchor="middle" {style}>{_text(_short(text))}</text>'


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _signs(text: str) -> int:
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in _short(text))


def _text(text: str) -> str:
    return escape(text if text.isprintable() else repr(text)[1:-1])
