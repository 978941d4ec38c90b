"""Views of jobs for people: the live page, the terminal, the notebook and the metrics.

All of them subscribe to the topics on which jobs describe themselves.
"""

from tidewheel.console.metrics.export import TelemetryExport
from tidewheel.console.page.live_page import LivePage

__all__ = ["LivePage", "TelemetryExport"]
