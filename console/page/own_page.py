"""The live page of this process's own jobs, which ``tidewheel.run(..., page=True)`` serves."""

import math
import sys
import threading
from functools import cache
from urllib.parse import urlencode

from tidewheel.console.page.found_jobs import own_jobs
from tidewheel.console.page.live_page import LivePage
from tidewheel.console.page.page_jobs import PageJobs
from tidewheel.gateway.gateway import Gateway
from tidewheel.gateway.gateway_config import GatewayConfig

_LOCK = threading.Lock()
_FOLLOWED_WITHIN_S = 2.0


class OwnPage:
    """The live page that this process serves, to this machine only, until the process ends; its address has a token.

    Raises:
        GatewayError: libraries of the extra ``gateway`` are missing, or no port is free.
    """

    def __init__(self) -> None:
        self.jobs = PageJobs(own_jobs, linger_s=math.inf)
        self.gateway = Gateway(GatewayConfig(port=0, flight_port=None), [LivePage(self.jobs)])
        self.gateway.start()
        self._is_told = False

    def show(self, job: str) -> None:
        """Follow a job of this process; the first call writes the address to standard error."""
        self.jobs.look()
        if self.jobs.knows(job):
            self.jobs.page(job).is_followed.wait(_FOLLOWED_WITHIN_S)  # so that a short job is seen, too
        with _LOCK:
            was_told, self._is_told = self._is_told, True
        if not was_told:
            address = f"{self.gateway.page_url}&{urlencode({'job': job})}"
            sys.stderr.write(f"tidewheel: the page of this program's jobs is at {address}\n")
            sys.stderr.flush()


def own_page() -> OwnPage:
    """Return this process's page, started if necessary; raise as `OwnPage` does."""
    with _LOCK:
        return _started()


_started = cache(OwnPage)
