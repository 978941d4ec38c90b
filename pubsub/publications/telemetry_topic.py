"""The telemetry topic of a dataflow, before its job runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidewheel.display.live_views import live_view
from tidewheel.host.attachment import AttachmentHost
from tidewheel.pubsub.catalog.catalog import TELEMETRY
from tidewheel.pubsub.errors import UnknownTopic

if TYPE_CHECKING:
    from tidewheel.pubsub.publications.running_telemetry_topic import RunningTelemetryTopic


class TelemetryTopic:
    """The description of the telemetry topic, attached to a dataflow."""

    def start(self, host: AttachmentHost, came: Callable[[], None]) -> "RunningTelemetryTopic":
        """Start the topic in this process; for each new subscriber it calls ``came``, on any thread."""
        from tidewheel.pubsub.publications.running_telemetry_topic import RunningTelemetryTopic

        return RunningTelemetryTopic(host, came)

    def page(self) -> Any:
        """Return the live page of this process, started if necessary; raise GatewayError if that fails."""
        return live_view("own_page")()

    def view(self, job: str, chosen: tuple[str, str]) -> Any:
        """Return a live view of a job for a notebook; None if anywidget is not installed, or the job has ended."""
        from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG

        if LOCAL_CATALOG.lookup(f"{TELEMETRY}{job}") is None:
            return None
        try:
            return live_view("job_widget")(job, chosen)
        except (ImportError, UnknownTopic):
            return None
