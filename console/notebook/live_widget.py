"""The widget of a notebook, with anywidget: the page's script in a cell, and a `Feed`."""

import asyncio
from collections.abc import Callable
from typing import Any

from anywidget import AnyWidget
from traitlets import Int, List, Unicode

from tidewheel.console.notebook.feed import Feed, Page, Reader
from tidewheel.console.notebook.page_module import page_module


class LiveWidget(AnyWidget):
    """A widget that shows the page. It is fed until it, or its last view in the browser, is closed.

    Attributes:
        chosen: the part to show first, such as ``["probe", "done"]``, which makes the view of a job brief.
    """

    _esm = page_module()

    kind = Unicode("job").tag(sync=True)
    name = Unicode().tag(sync=True)
    chosen = List(Unicode(), ["none", ""]).tag(sync=True)
    label = Unicode().tag(sync=True)
    most = Int(0).tag(sync=True)

    feed: Feed | None = None

    def __init__(self, page: Page, read: Callable[[], Reader], **shown: Any) -> None:
        super().__init__(**shown)
        try:
            when_idle = asyncio.get_running_loop().call_soon_threadsafe  # a kernel's loop runs the cell
        except RuntimeError:
            when_idle = None
        self.feed = Feed(page, read, self.send, when_idle)
        self.on_msg(lambda _, message, __: self._hear(message))
        if self.comm is not None:
            self.comm.on_close(lambda _: self._stop())
        self.feed.start()

    def _hear(self, message: Any) -> None:
        if self.feed is not None and isinstance(message, dict):
            self.feed.hear(message)

    def _stop(self) -> None:
        if self.feed is not None:
            self.feed.stop()

    def close(self) -> None:
        self._stop()
        super().close()
