"""Message diagrams of the site: blocks of lines such as ``driver -> worker 0: records at 3``, drawn as SVG.

The first line names the parties, separated by ``|``. Then each line is one step, from top to bottom:

- ``a -> b: text`` is a message, ``a --> b: text`` an answer, drawn dashed.
- ``a -> a: text`` is something that happens at ``a``.
- ``a -x b: text`` is a message that is lost.
- ``note: text`` is a remark across the whole diagram.

MkDocs calls `fence` for each block ``messages``; the pages stay readable as text.
"""

import re
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

_SIGN = 7.9
_STEP = 40.0
_HEAD = 28.0
_MARGIN = 12.0
_LEAST_GAP = 120.0
_STEP_LINE = re.compile(r"(?P<sender>.+?) (?P<arrow>->|-->|-x) (?P<receiver>[^:]+): (?P<text>.+)")


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a diagram; a remark has neither sender nor receiver."""

    text: str
    sender: int = -1
    receiver: int = -1
    arrow: str = ""

    @property
    def is_note(self) -> bool:
        """Whether it is a remark."""
        return self.sender < 0

    @property
    def width(self) -> float:
        """How wide its text is, with some room, in pixels."""
        return len(self.text) * _SIGN + 36.0


@dataclass(frozen=True, slots=True)
class Diagram:
    """The parties of a diagram and its steps, in order."""

    parties: tuple[str, ...]
    steps: tuple[Step, ...]


def parsed(source: str) -> Diagram:
    """Return the diagram that a block describes.

    Raises:
        ValueError: a line is none of the forms above, or names an unknown party.
    """
    first, *lines = [line.strip() for line in source.strip().splitlines() if line.strip()]
    parties = tuple(name.strip() for name in first.split("|"))
    return Diagram(parties, tuple(_step(line, parties) for line in lines))


def _step(line: str, parties: tuple[str, ...]) -> Step:
    if line.startswith("note: "):
        return Step(line.removeprefix("note: "))
    found = _STEP_LINE.fullmatch(line)
    if found is None or not {found["sender"], found["receiver"]} <= set(parties):
        message = f"{line!r} is no step of a message diagram between {', '.join(parties)}"
        raise ValueError(message)
    return Step(found["text"], parties.index(found["sender"]), parties.index(found["receiver"]), found["arrow"])


def drawn(diagram: Diagram) -> str:
    """Return the diagram as SVG. Its colours are those of the page: see assets/site.css."""
    places = _places(diagram)
    width = max([places[-1] + _half(diagram.parties[-1]), *(_right_end(step, places) for step in diagram.steps)])
    height = _HEAD + _STEP * (len(diagram.steps) + 1) + _MARGIN
    parts = [f'<line class="life" x1="{x:.0f}" x2="{x:.0f}" y1="{_HEAD:.0f}" y2="{height:.0f}"/>' for x in places]
    for x, name in zip(places, diagram.parties, strict=True):
        half = _half(name) - _MARGIN
        parts.append(f'<rect x="{x - half:.0f}" y="1" width="{2 * half:.0f}" height="{_HEAD:.0f}" rx="4"/>')
        parts.append(_text(x, _HEAD / 2 + 5, name))
    for number, step in enumerate(diagram.steps, start=1):
        parts += _drawn_step(step, places, _HEAD + number * _STEP, width)
    total = width + _MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{height:.0f}"'
    said = escape("; ".join(step.text for step in diagram.steps))
    return f'{head} viewBox="0 0 {total:.0f} {height:.0f}" role="img" aria-label="{said}">{"".join(parts)}</svg>'


def fence(source: str, language: str, css_class: str, options: Any, md: Any, **_: Any) -> str:
    """Return the HTML for a block; the signature is that of the extension ``pymdownx.superfences``."""
    return f'<div class="{css_class}">{drawn(parsed(source))}</div>'


def _places(diagram: Diagram) -> list[float]:
    """Return the middle of each party's line: as near to each other as names and texts allow."""
    gaps = [max(_LEAST_GAP, _half(left) + _half(right)) for left, right in pairwise(diagram.parties)]
    for step in sorted(diagram.steps, key=lambda step: abs(step.sender - step.receiver)):
        first, last = sorted((step.sender, step.receiver))
        if step.is_note:
            continue
        if first == last:
            last = first + 1
        crossed = range(first, min(last, len(gaps)))
        missing = step.width - sum(gaps[number] for number in crossed)
        for number in crossed:
            gaps[number] += max(0.0, missing) / len(crossed)
    places = [_half(diagram.parties[0]) + 1.0]
    for gap in gaps:
        places.append(places[-1] + gap)
    return places


def _half(name: str) -> float:
    return len(name) * _SIGN / 2 + 10 + _MARGIN


def _right_end(step: Step, places: list[float]) -> float:
    if step.is_note:
        return step.width
    return places[step.sender] + step.width if step.sender == step.receiver else 0.0


def _drawn_step(step: Step, places: list[float], y: float, width: float) -> list[str]:
    if step.is_note:
        return [_text(width / 2, y, step.text, "note")]
    start, end = places[step.sender], places[step.receiver]
    if start == end:
        return [
            f'<rect x="{start - 4:.0f}" y="{y - 9:.0f}" width="8" height="12"/>',
            _text(start + 14, y, step.text, "at"),
        ]
    dashes = ' stroke-dasharray="5 4"' if step.arrow == "-->" else ""
    way = 1.0 if end > start else -1.0
    if step.arrow == "-x":
        end -= way * abs(end - start) * 0.25
        head = f"M{end - 5:.0f} {y - 5:.0f}l10 10M{end - 5:.0f} {y + 5:.0f}l10 -10"
    else:
        head = f"M{end - way * 8:.0f} {y - 4:.0f}L{end:.0f} {y:.0f}L{end - way * 8:.0f} {y + 4:.0f}"
    line = f'<line x1="{start:.0f}" x2="{end:.0f}" y1="{y:.0f}" y2="{y:.0f}"{dashes}/>'
    middle = (places[step.sender] + places[step.receiver]) / 2
    return [line, f'<path d="{head}" fill="none"/>', _text(middle, y - 7, step.text)]


def _text(x: float, y: float, text: str, css_class: str = "") -> str:
    anchor = "" if css_class == "at" else ' text-anchor="middle"'
    marked = f' class="{css_class}"' if css_class else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{anchor}{marked}>{escape(text)}</text>'
