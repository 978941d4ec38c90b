"""The output of a notebook cell; needs no library beyond those of the notebook."""

import sys
from collections.abc import Mapping
from typing import Any


def is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def display(shown: Any, **options: Any) -> Any:
    return sys.modules["IPython.display"].display(shown, **options)  # it is loaded, as this is a notebook


class NotebookCell:
    """One output of the running cell, which can be replaced later, from any thread."""

    def __init__(self) -> None:
        self._shown: Any = None

    def show(self, data: Mapping[str, str]) -> None:
        """Replace the content with ``data``: the content by media type, such as ``text/html``."""
        if self._shown is None:
            self._shown = display(dict(data), raw=True, display_id=True)
        else:
            self._shown.update(dict(data), raw=True)
