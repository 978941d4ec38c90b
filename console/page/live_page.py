"""The live page of jobs and the metrics of jobs, as a site of a gateway."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidewheel.console.page.page_jobs import PageJobs

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.routing import BaseRoute


class LivePage:
    """Shows the jobs of this process and of the Ray cluster in a browser: ``Gateway(config, [LivePage()])``.

    Args:
        jobs: the names of the jobs to show; by default all jobs.
    """

    def __init__(self, jobs: PageJobs | None = None) -> None:
        self.jobs = PageJobs() if jobs is None else jobs

    def routes(self, keep_alive_s: float) -> "Sequence[BaseRoute]":
        """Return the routes of the page and of the metrics, at ``/metrics``."""
        from tidewheel.console.metrics.metrics_page import metrics_route
        from tidewheel.console.page.page_routes import page_routes

        return [metrics_route(self.jobs.documents), *page_routes(self.jobs, keep_alive_s)]

    def is_open(self, request: "HTTPConnection") -> bool:
        """Tell whether a request is for a file of the page, which is the same for everyone."""
        from tidewheel.console.page.page_routes import is_file

        return is_file(request)

    def close(self) -> None:
        """End all streams, and stop following jobs; do not wait."""
        self.jobs.close()
