"""A job in a notebook: a live view of its telemetry, or a picture if the view's library is not installed."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from html import escape
from typing import TypeAlias
from weakref import WeakMethod

from tidewheel.display.notebook_cell import NotebookCell, display
from tidewheel.host.attachment import Telemetry
from tidewheel.host.extras import install_command
from tidewheel.runtime.description.outline import Outline
from tidewheel.runtime.drawing.figured import with_figures
from tidewheel.runtime.drawing.picture import picture_of
from tidewheel.runtime.explaining.explanation import Explanation
from tidewheel.runtime.messages.statistics import OperatorStatistics

_LOGGER = logging.getLogger(__name__)
_EVERY_S = 1.0
_FINAL = {"complete", "failed", "stopped"}
_HINT = (
    "<div><small>The live page of the job is shown here where anywidget is installed: where tidewheel is, "
    f"<code>{install_command('notebook')}</code>. Then restart the kernel.</small></div>"
)

Figures: TypeAlias = Mapping[str, OperatorStatistics]
"""The counts of each operator, by its name."""


def show_view(telemetry: Telemetry | None, job: str, chosen: tuple[str, str] = ("none", "")) -> bool:
    """Show a live view of a job in the running cell; return False if that is impossible."""
    view = None if telemetry is None else telemetry.view(job, chosen)
    if view is None:
        return False
    display(view)
    return True


class JobPicture:
    """The picture of a job with each operator's figures.

    Args:
        look: a weakly referenced method of the job that returns the state and the figures. If it returns no figures,
            the last figures stay.
    """

    def __init__(
        self,
        name: str,
        outline: Outline,
        look: Callable[[], tuple[str, Figures]],
        telemetry: Telemetry | None = None,
    ) -> None:
        self._name = name
        self._outline = outline
        self._look = WeakMethod(look)
        self._telemetry = telemetry
        self._state = "running"
        self._figures: Figures = {}

    def html(self) -> str:
        look = self._look()
        self._state, figures = ("stopped", {}) if look is None else look()
        self._figures = figures or self._figures
        picture = picture_of(with_figures(self._outline, self._figures))
        return f"<div>job {escape(self._name)} is {escape(self._state)}</div>{picture}"

    def with_view(self, explanation: Explanation) -> Explanation:
        view = partial(show_view, self._telemetry, self._name, ("probe", explanation.name))
        return replace(explanation, show_live=view)

    def show_live(self) -> None:
        """Show the job in the cell until it ends: as a live view, or as a picture that is renewed each second."""
        drawn = self.html()
        if self._state in _FINAL:
            NotebookCell().show({"text/html": drawn})
        elif not show_view(self._telemetry, self._name):
            cell = NotebookCell()
            cell.show({"text/html": drawn + _HINT})
            threading.Thread(target=self._go_on, args=[cell, drawn], name="tidewheel-notebook", daemon=True).start()

    def _go_on(self, cell: NotebookCell, shown: str) -> None:
        pause = threading.Event()
        try:
            while self._state not in _FINAL:
                pause.wait(_EVERY_S)
                drawn = self.html()
                if drawn != shown:
                    cell.show({"text/html": drawn + _HINT})
                    shown = drawn
        except Exception:
            _LOGGER.warning("job %r is shown no longer", self._name, exc_info=True)
