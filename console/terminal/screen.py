"""The screen that ``tidewheel top`` draws in a terminal, with rich."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from tidewheel.console.terminal.choices import ORDER_KEYS, Choices
from tidewheel.console.terminal.tables import (
    ListedJob,
    Table,
    jobs_table,
    log_table,
    operators_table,
    sinks_table,
    sources_table,
    stuck_lines,
    title_of,
    topics_table,
    workers_table,
)
from tidewheel.pubsub.subscribers.view import View

_MOST_JOBS, _MOST_STUCK, _MOST_CONNECTORS, _MOST_TOPICS, _MOST_WORKERS, _MOST_EVENTS = 5, 8, 5, 5, 8, 3
_LEAST_OPERATORS = 3
_NAME = 20
_EMPTY = Text("", no_wrap=True, overflow="ellipsis")
_ALARM = "bold red"


def picture(
    jobs: Sequence[ListedJob], view: View | None, message: str, choices: Choices, height: int
) -> RenderableType:
    above, below = _Lines(), _Lines()
    below.text("")
    if view is not None:
        for place, line in enumerate(title_of(view.document)):
            above.text(line, _ALARM if line.startswith("error") else "" if place else "bold")
    if message:
        above.text(message, _ALARM)
    if len(jobs) > 1:
        above.table(jobs_table(jobs).cut(_MOST_JOBS))
    if view is not None:
        stuck = stuck_lines(view.document)
        if stuck:
            above.gap()
        for line in stuck[: min(_MOST_STUCK, height // 4)]:
            above.text(line, "yellow")
        for table, most in (
            (sources_table(view), _MOST_CONNECTORS),
            (sinks_table(view), _MOST_CONNECTORS),
            (topics_table(view), _MOST_TOPICS),
            (workers_table(view), _MOST_WORKERS),
            (log_table(view.document), _MOST_EVENTS),
        ):
            below.table(table.cut(most))
        room = max(_LEAST_OPERATORS, height - above.height - below.height - 3)
        operators = operators_table(view, choices.order, is_reversed=choices.is_reversed)
        first = min(choices.first, max(0, len(operators.rows) - room))
        above.table(operators.cut(room, first))
    orders = (f"[{key} {order}]" if order == choices.order else f"{key} {order}" for key, order in ORDER_KEYS.items())
    return Group(
        *above.parts, *below.parts, Text(f"q quit, j next job, order by {', '.join(orders)}", "dim", no_wrap=True)
    )


class _Lines:
    """Parts of the screen; each of their lines is one line of the terminal."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.height = 0

    def text(self, line: str, style: str = "") -> None:
        self.parts.append(Text(line, style, no_wrap=True, overflow="ellipsis"))
        self.height += 1

    def gap(self) -> None:
        if self.parts and self.parts[-1] != _EMPTY:
            self.text("")

    def table(self, table: Table) -> None:
        """Add a table below an empty line, without its empty columns."""
        if not table.rows:
            return
        self.gap()
        drawn = RichTable(box=None, pad_edge=False, header_style="bold reverse")
        filled = [
            place for place, cells in enumerate(zip(*(row.cells for row in table.rows), strict=True)) if any(cells)
        ]
        for place in filled:
            head = table.heads[place]
            drawn.add_column(
                Text(head.strip()),
                justify="right" if head.startswith(" ") else "left",
                no_wrap=True,
                overflow="ellipsis",
                min_width=None if place else min(_NAME, max(len(row.cells[0]) + 2 for row in table.rows)),
            )
        for row in table.rows:
            first, *others = (row.cells[place] for place in filled)
            # There is also a mark, since some people and terminals do not distinguish colours.
            marked = f"! {first}" if row.is_alarming else first
            drawn.add_row(Text(marked), *map(Text, others), style=_ALARM if row.is_alarming else "")
        self.parts.append(drawn)
        self.height += 1 + len(table.rows)
