"""A running gateway."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tidewheel.gateway.access import Access
from tidewheel.gateway.clients import Clients
from tidewheel.gateway.errors import GatewayError
from tidewheel.gateway.gateway_config import GatewayConfig, listen, url
from tidewheel.gateway.site import Site
from tidewheel.host.extras import check_extra

if TYPE_CHECKING:
    from typing import Self

    from tidewheel.gateway.flight_server import FlightServer
    from tidewheel.gateway.web_server import WebServer


_LEAVE_WITHIN_S = 2.0


class Gateway:
    """Serves topics of this process and of the Ray cluster, and sites such as `LivePage`, during its ``with`` block.

    The gateway runs on its own threads, and each client has its own subscription.

    Args:
        config: addresses, token and limits; by default those of `GatewayConfig`.
        sites: the sites to serve in addition to topics.

    Raises:
        GatewayError: on entering the ``with`` block, if libraries are missing or a port is taken.
    """

    def __init__(self, config: GatewayConfig | None = None, sites: Sequence[Site] = ()) -> None:
        self._config = GatewayConfig() if config is None else config
        self.token = self._config.token
        """The token that clients must show; None if they need no token."""
        self._clients = Clients(self._config.max_clients, self._config.max_epoch_bytes)
        self._sites = tuple(sites)
        self._web: WebServer | None = None
        self._flight: FlightServer | None = None
        self._port = self._config.port

    @property
    def url(self) -> str:
        """The HTTP URL, such as ``http://127.0.0.1:8787``."""
        return url("http", self._config.address, self._port)

    @property
    def page_url(self) -> str:
        """The address of the live page. The token is in its fragment, which browsers do not send."""
        return f"{self.url}/#{urlencode({} if self.token is None else {'token': self.token})}"

    @property
    def flight_url(self) -> str:
        """The Arrow Flight URL, such as ``grpc://127.0.0.1:8788``; without Flight its port is 0."""
        port = self._config.flight_port if self._flight is None else self._flight.port
        return url("grpc", self._config.address, port or 0)

    @property
    def clients(self) -> int:
        """The current number of clients."""
        return len(self._clients)

    def start(self) -> None:
        """Begin to listen, once; if this fails, you may call it again."""
        config = self._config
        check_extra("gateway", "the gateway", GatewayError)
        from tidewheel.gateway.application import application
        from tidewheel.gateway.web_server import WebServer

        access = Access(config.token, config.hosts, config.origins)
        listener = listen(config.address, config.port, config.stall_s)
        self._port = listener.getsockname()[1]
        app = application(access, self._clients, self._sites, config.keep_alive_s)
        self._web = WebServer(app, listener, config.stall_s)
        try:
            if config.flight_port is not None:
                from tidewheel.gateway.flight_server import FlightServer

                self._flight = FlightServer(config.address, config.flight_port, access, self._clients, config.stall_s)
            self._web.start()
        except BaseException:
            self._stop_servers()
            raise

    def stop(self) -> None:
        """End all streams, send each client the reason, and stop listening; this takes seconds; idempotent."""
        self._clients.close()
        for site in self._sites:
            site.close()
        self._stop_servers()
        self._clients.wait_until_none(_LEAVE_WITHIN_S)

    def _stop_servers(self) -> None:
        stopping = [threading.Thread(target=server.stop) for server in (self._web, self._flight) if server is not None]
        self._web = self._flight = None
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()

    def __enter__(self) -> "Self":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
