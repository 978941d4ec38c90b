"""The picture of `topics/fanout.py`: the latency of each message around three faults, below and beside each."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from benchmarks.parts.fanout_recovery import BEFORE_S, Moment, Recovery
from benchmarks.parts.fanout_tree import UP

Scale: TypeAlias = Callable[[float], float]

_WIDTH, _PANEL, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 190, 62, 16, 40, 34
_FIRST_POWER, _LAST_POWER = 0, 5
"""The scale of latencies goes from 1 ms to 100 s."""
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222; }
.small { font-size: 12px; fill: #666; }
.grid { stroke: #ddd; stroke-width: 1; fill: none; }
.fault { stroke: #888; stroke-width: 1.4; fill: none; stroke-dasharray: 5 4; }
.down { fill: #888; fill-opacity: 0.12; }
.below { stroke: #b3541e; stroke-width: 2; fill: none; }
.beside { stroke: #2b62b3; stroke-width: 2; fill: none; }
.belowlabel { fill: #b3541e; } .besidelabel { fill: #2b62b3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e4e4; } .small { fill: #aaa; } .grid { stroke: #3a3c48; }
  .below { stroke: #ff9d66; } .beside { stroke: #7fb0ff; }
  .belowlabel { fill: #ff9d66; } .besidelabel { fill: #7fb0ff; }
}
"""


def picture(recoveries: Sequence[Recovery], subscribers: int, rate: float) -> str:
    """Return an SVG with a panel for each fault."""
    height = _PANEL * len(recoveries) + 24
    title = f"Latency of each message to {subscribers} subscribers at {rate:g} messages/s, around three faults"
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style>",
    ]
    for number, recovery in enumerate(recoveries):
        parts += _panel(recovery, _PANEL * number)
    note = "seconds after the fault at which a message was sent; its median latency to the subscribers"
    parts += [f'<text x="{_LEFT}" y="{height - 8}" class="small">{note}</text>', "</svg>\n"]
    return "\n".join(parts)


def _panel(recovery: Recovery, top: int) -> list[str]:
    fault, nacks = recovery.fault, recovery.nacks
    last_s = max(moment.at_s for moments in recovery.moments.values() for moment in moments)
    upper, lower = top + _TOP, top + _PANEL - _BOTTOM

    def x(at_s: float) -> float:
        return _LEFT + (at_s + BEFORE_S) / (last_s + BEFORE_S) * (_WIDTH - _LEFT - _RIGHT)

    def y(latency_ms: float) -> float:
        share = (math.log10(max(1.0, latency_ms)) - _FIRST_POWER) / (_LAST_POWER - _FIRST_POWER)
        return lower - share * (lower - upper)

    counts = ", ".join(f"{nacks[hop]} {hop}" for hop in reversed(UP))
    parts = [
        f'<text x="{_LEFT}" y="{top + 16}">{fault.name[0].upper()}{fault.name[1:]}</text>',
        f'<text x="{_LEFT}" y="{top + 32}" class="small">nacks: {counts}</text>',
    ]
    for power in range(_FIRST_POWER, _LAST_POWER + 1):
        label = f"{10**power} ms" if power < 3 else f"{10 ** (power - 3)} s"
        at = y(10**power)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}" class="grid"/>')
        if power < _LAST_POWER:
            parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" class="small">{label}</text>')
    parts += [
        f'<text x="{x(second):.1f}" y="{lower + 16}" text-anchor="middle" class="small">{second}</text>'
        for second in range(0, int(last_s) + 1, 2)
    ]
    if fault.down_s:
        width = x(fault.down_s) - x(0)
        parts.append(f'<rect x="{x(0):.1f}" y="{upper}" width="{width:.1f}" height="{lower - upper}" class="down"/>')
    parts.append(f'<path d="M{x(0):.1f} {upper}V{lower}" class="fault"/>')
    for number, (where, moments) in enumerate(sorted(recovery.moments.items(), reverse=True)):
        parts.append(f'<path d="{_line(moments, x, y)}" class="{where}"/>')
        label = f'x="{_WIDTH - _RIGHT - 120 * number}" y="{top + 16}" text-anchor="end" class="{where}label"'
        parts.append(f"<text {label}>{where} the fault</text>")
    return parts


def _line(moments: Sequence[Moment], x: Scale, y: Scale) -> str:
    points = [f"{x(moment.at_s):.1f} {y(moment.middle_ms):.1f}" for moment in moments]
    return "M" + "L".join(points)
