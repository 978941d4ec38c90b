"""The first records of some batches as a table for a notebook."""

from collections.abc import Iterable, Sequence
from html import escape
from reprlib import Repr
from typing import Any

from tidewheel.batches.batches import Batch, length, records, take_slice

MOST_ROWS, MOST_COLUMNS, MOST_SIGNS = 20, 20, 80
"""The largest numbers of rows, of columns, and of characters in a cell."""

_REPR = Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = MOST_SIGNS
_OTHER_RECORDS = "record"


def html_table(title: str, batches: Iterable[tuple[str | None, Batch]], total: int) -> str:
    """Return the first records as HTML rows, with a cell for each column of a dict or Arrow row.

    Each batch comes with its time as text, or None if all have the same time. ``total`` is the number of all records.
    Batches after the last shown record are not read.

    >>> html_table("epoch 3", [(None, [{"a": "<b>"}])], 1)
    '<table><caption>epoch 3: 1 record</caption><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    shown: list[tuple[str | None, Any]] = []
    for time, batch in batches:
        first = take_slice(batch, 0, min(MOST_ROWS - len(shown), length(batch)))
        shown += [(time, record) for record in records(first)]
        if len(shown) >= MOST_ROWS:
            break
    columns = _columns([record for _, record in shown])
    has_times = any(time is not None for time, _ in shown)
    rows = [_row("th", [*["time"] * has_times, *map(_text, columns or [_OTHER_RECORDS])])] if shown else []
    for time, record in shown:
        cells = [_text(record.get(name, "")) for name in columns] if columns else [_text(record)]
        rows.append(_row("td", [*[time or ""] * has_times, *cells]))
    count = f"{total:,} record{'s' if total != 1 else ''}"
    left = f", of which {len(shown)} are shown" if total > len(shown) else ""
    return f"<table><caption>{escape(title)}: {count}{left}</caption>{''.join(rows)}</table>"


def _columns(shown: Sequence[Any]) -> list[Any]:
    if not all(isinstance(record, dict) for record in shown):
        return []
    return list(dict.fromkeys(key for record in shown for key in record))[:MOST_COLUMNS]


def _text(value: Any) -> str:
    begin = value[: MOST_SIGNS + 1] if isinstance(value, str) else "\0"
    text = begin if begin.isprintable() else _REPR.repr(value)
    return text if len(text) <= MOST_SIGNS else f"{text[: MOST_SIGNS - 1]}…"


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
