"""The live views of jobs and topics, by name.

Views import jobs and topics, so jobs and topics cannot import views. They load a view by name when a user asks for it.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

ViewName: TypeAlias = Literal["own_page", "job_widget", "plot"]

_MODULES: Final[dict[ViewName, str]] = {
    "own_page": "tidewheel.console.page.own_page",
    "job_widget": "tidewheel.console.notebook.job_widget",
    "plot": "tidewheel.console.notebook.plot",
}


def live_view(name: ViewName) -> Callable[..., Any]:
    """Return the function that makes a view: the page of this process, a job in a notebook, or a chart.

    Raises:
        ImportError: the view's libraries are not installed.
    """
    function: Callable[..., Any] = getattr(import_module(_MODULES[name]), name)
    return function
