"""What people watch jobs with: the live page, the terminal, the notebook and the metrics.

All of them are subscribers of the topics on which jobs describe themselves.
"""

from tidewheel.console.metrics.export import TelemetryExport
from tidewheel.console.page.live_page import LivePage

__all__ = ["LivePage", "TelemetryExport"]
