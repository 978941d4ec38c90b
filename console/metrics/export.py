"""The export of a job's telemetry to Ray's metrics or to OpenTelemetry, by a thread that follows the job."""

import logging
import threading
from contextlib import suppress
from typing import Literal, Protocol, Self

from tidewheel.console.metrics.job_metrics import Document
from tidewheel.host.extras import check_extra
from tidewheel.host.ray_cluster import membership
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.catalog.catalog import TELEMETRY
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader

_LOGGER = logging.getLogger(__name__)
_ENDS_WITHIN_S = 5.0


class _Target(Protocol):
    def show(self, document: Document) -> None: ...
    def end(self) -> None: ...


class TelemetryExport:
    """Exports the metrics of one job once a second, while its ``with`` block and the job run.

    The last exported numbers are those at the end of the block.

    Args:
        job: the job's name, ``job.name``.
        to: ``"ray"`` sets Ray metrics, which each node of the cluster exports for Prometheus. ``"opentelemetry"`` uses
            the meter and tracer providers that the program has set, and needs the extra ``otel``.
        timeout_s: how long to wait for the job, in seconds.

    Raises:
        DeliveryError: there is no such job, or OpenTelemetry is not installed.
    """

    def __init__(self, job: str, to: Literal["ray", "opentelemetry"], *, timeout_s: float = 10.0) -> None:
        self._target = _target(job, to)
        self._reader = TelemetryReader(job, timeout_s=timeout_s)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"tidewheel-export-{job}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for view in self._reader:
                self._target.show(view.document)
            if self._is_closed:
                self._show_last()
        except TidewheelError as error:
            _LOGGER.warning("the telemetry of job %r is not exported any more: %s", self._reader.job, error)
        except Exception:
            _LOGGER.exception("the telemetry of job %r cannot be exported", self._reader.job)
        finally:
            self._reader.close()
            self._target.end()

    def _show_last(self) -> None:
        """Export the last changes: a new subscription receives the current document immediately."""
        job = self._reader.job
        if LOCAL_CATALOG.lookup(f"{TELEMETRY}{job}") is None and not membership():
            return  # it has ended, and this process need not look for a cluster
        with suppress(DeliveryError), TelemetryReader(job, timeout_s=0.0) as reader:
            for view in reader:
                self._target.show(view.document)
                return

    def close(self) -> None:
        """End the export; idempotent."""
        self._is_closed = True
        self._reader.close()
        self._thread.join(_ENDS_WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _target(job: str, to: str) -> _Target:
    if to == "ray":
        from tidewheel.console.metrics.ray_metrics import RayMetrics

        return RayMetrics(job)
    if to != "opentelemetry":
        raise DeliveryError(f"telemetry can be exported to 'ray' or 'opentelemetry', not to {to!r}")
    check_extra("otel", "an export to OpenTelemetry", DeliveryError)
    from tidewheel.console.metrics.open_telemetry import OpenTelemetry

    return OpenTelemetry(job)
