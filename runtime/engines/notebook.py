"""One output of a notebook's cell, which is shown anew while a job goes on, and the picture of a job in it.

It needs no library but the notebook's own.
"""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, TypeAlias
from weakref import WeakMethod

from tidewheel.runtime.drawing.figured import with_figures
from tidewheel.runtime.drawing.outline import Outline
from tidewheel.runtime.drawing.picture import picture_of
from tidewheel.runtime.explaining.statistics import OperatorStatistics

_LOGGER = logging.getLogger(__name__)
_EVERY_S = 1.0
_FINAL = {"complete", "failed", "stopped"}

Figures: TypeAlias = Mapping[str, OperatorStatistics]
"""The counts of each operator, by its name."""


def is_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookCell:
    """One output of the cell that runs now, which can be replaced, also from another thread and later."""

    def __init__(self) -> None:
        self._shown: Any = None

    def show(self, data: Mapping[str, str]) -> None:
        """Show the content in place of the one before; ``data`` has it by media type, such as ``text/html``."""
        if self._shown is None:
            display = sys.modules["IPython.display"].display  # it is loaded, as this is a notebook
            self._shown = display(dict(data), raw=True, display_id=True)
        else:
            self._shown.update(dict(data), raw=True)


class JobPicture:
    """The picture of a job with what each operator has done so far.

    Args:
        name: of the job.
        outline: its dataflow.
        look: a method of the job, which this object does not keep alive. It returns the state and the figures; without
            figures, the last ones stay.
    """

    def __init__(self, name: str, outline: Outline, look: Callable[[], tuple[str, Figures]]) -> None:
        self._name = name
        self._outline = outline
        self._look = WeakMethod(look)
        self._state = "running"
        self._figures: Figures = {}

    def html(self) -> str:
        """Return the state and the picture as HTML, as they are now."""
        look = self._look()
        self._state, figures = ("stopped", {}) if look is None else look()
        self._figures = figures or self._figures
        picture = picture_of(with_figures(self._outline, self._figures))
        return f"<div>job {escape(self._name)} is {escape(self._state)}</div>{picture}"

    def show_live(self) -> None:
        """Show the picture in the cell that runs now, and again each second until the job has ended."""
        cell, first = NotebookCell(), self.html()
        cell.show({"text/html": first})
        if self._state not in _FINAL:
            threading.Thread(target=self._go_on, args=[cell, first], name="tidewheel-notebook", daemon=True).start()

    def _go_on(self, cell: NotebookCell, shown: str) -> None:
        pause = threading.Event()
        try:
            while self._state not in _FINAL:
                pause.wait(_EVERY_S)
                drawn = self.html()
                if drawn != shown:
                    cell.show({"text/html": drawn})
                    shown = drawn
        except Exception:
            _LOGGER.warning("job %r is shown no longer", self._name, exc_info=True)
