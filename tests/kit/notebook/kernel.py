"""This process as the kernel of a notebook: what its cell shows, and the messages between its widgets and a browser."""

import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import comm
import IPython.display
import pytest
from comm.base_comm import BaseComm

from tests.waiting import eventually
from tidewheel.console.notebook.live_widget import LiveWidget


class RecordedComm(BaseComm):
    """The connection of one widget, which keeps what the widget sends."""

    def __init__(self, **options: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        super().__init__(**options)

    def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
        """Keep a message."""
        self.sent.append({"type": msg_type, **(data or {})})

    def hear(self, message: dict[str, Any]) -> None:
        """Receive a message of a view in the browser."""
        content = {"data": {"method": "custom", "content": message}}
        self.handle_msg({"content": content, "buffers": []})


class Kernel:
    """The kernel of a notebook whose cell runs this test.

    Attributes:
        outputs: what the cell has shown, as HTML, one after the other.
        widgets: the widgets that it has displayed.
    """

    def __init__(self) -> None:
        self.outputs: list[str] = []
        self.widgets: list[LiveWidget] = []

    def display(self, shown: Any, *, raw: bool = False, display_id: bool = False) -> Any:
        """Stand for IPython's ``display``."""
        if isinstance(shown, LiveWidget):
            self.widgets.append(shown)
            return None
        assert raw
        assert display_id
        self.outputs.append(shown["text/html"])
        return types.SimpleNamespace(update=lambda data, raw: self.outputs.append(data["text/html"]))


@contextmanager
def kernel() -> Iterator[Kernel]:
    """Make this process a kernel; close its widgets afterwards, and check that none of them has left a thread."""
    made = Kernel()
    shell = types.SimpleNamespace(kernel=object(), events=types.SimpleNamespace(trigger=lambda _: None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IPython, "get_ipython", lambda: shell)
        patch.setattr(IPython.display, "display", made.display)
        patch.setattr(comm, "create_comm", RecordedComm)
        yield made
        for widget in made.widgets:
            widget.close()
        assert eventually(lambda: not feeds())


def feeds() -> list[str]:
    """Return the names of the threads that feed views in notebooks."""
    return [thread.name for thread in threading.enumerate() if thread.name == "tidewheel-notebook"]


def events(widget: LiveWidget) -> list[tuple[int, str, str]]:
    """Return the events that a widget has sent: the number, the name, and the data as JSON."""
    found = []
    for message in wire(widget).sent:
        content = message.get("content", {})
        if "event" in content:
            head, data = content["event"].strip().split("\n", 1)
            found.append((content["number"], head.removeprefix("event: "), data.removeprefix("data: ")))
    return found


def wire(widget: LiveWidget) -> RecordedComm:
    """Return the connection of a widget."""
    found = widget.comm
    assert isinstance(found, RecordedComm)
    return found
