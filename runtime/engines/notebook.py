"""One output of a notebook's cell, which is shown anew while a job goes on.

It needs no library but the notebook's own.
"""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

_LOGGER = logging.getLogger(__name__)
_EVERY_S = 1.0


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


def show_live(draw: Callable[[], Mapping[str, str] | None], name: str) -> None:
    """Show in the cell that runs now what ``draw`` returns, and again each second until it returns None.

    Args:
        draw: returns the content by media type; it is called here once, then from another thread.
        name: what is drawn, for the thread's name and the log.
    """
    cell, first = NotebookCell(), draw()
    if first is None:
        return
    cell.show(first)

    def go_on() -> None:
        pause = threading.Event()
        shown: Mapping[str, str] = first
        try:
            while not pause.wait(_EVERY_S) and (drawn := draw()) is not None:
                if drawn != shown:
                    cell.show(drawn)
                    shown = drawn
        except Exception:
            _LOGGER.warning("%s is shown no longer", name, exc_info=True)

    threading.Thread(target=go_on, name=f"tidewheel-notebook-{name}", daemon=True).start()
