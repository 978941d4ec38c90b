"""``tidewheel serve``: its options, and the gateway that it runs until a signal ends it."""

import argparse
import os
import signal
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from tidewheel.console.page.live_page import LivePage
from tidewheel.console.page.page_jobs import PageJobs
from tidewheel.gateway.access import check_token, new_token
from tidewheel.gateway.clients import MAX_EPOCH_BYTES
from tidewheel.gateway.errors import GatewayError
from tidewheel.gateway.gateway import Gateway
from tidewheel.gateway.gateway_config import GatewayConfig
from tidewheel.gateway.ingest import Ingest
from tidewheel.gateway.site import Site
from tidewheel.host.extras import check_extra
from tidewheel.host.ray_cluster import connect_to_running
from tidewheel.pubsub.errors import NoCluster
from tidewheel.pubsub.subscribers.topics import topics

_LOOK_S = 1.0

VARIABLE = "TIDEWHEEL_TOKEN"
"""The environment variable that may contain the token."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1, this machine only)"
    )
    parser.add_argument("--port", type=int, default=8787, help="port of HTTP, 0 for any (default: 8787)")
    parser.add_argument("--flight-port", type=int, default=8788, help="port of Arrow Flight, 0 for any (default: 8788)")
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"file with the token that clients must show; otherwise the value of {VARIABLE}, otherwise a new token",
    )
    token.add_argument("--no-token", action="store_true", help="let every program on this machine read and send")
    parser.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="let pages of this origin read topics, and send where --ingest lets them, such as http://localhost:3000; "
        "repeat it for more origins",
    )
    parser.add_argument(
        "--ingest",
        metavar="JOB",
        action="append",
        default=[],
        help="let clients send records to the inboxes of this job or dataflow; repeat it for more jobs",
    )
    parser.add_argument("--max-clients", type=int, default=100, help="how many clients may read at once (default: 100)")
    parser.add_argument(
        "--max-epoch-bytes",
        metavar="BYTES",
        type=int,
        default=MAX_EPOCH_BYTES,
        help="largest size of incomplete epochs that the gateway keeps for a client (default: 256 MiB)",
    )


def serve(options: argparse.Namespace, show: Callable[[str], None]) -> None:
    """Run a gateway until SIGTERM or Ctrl-C.

    Raises:
        GatewayError: the gateway cannot start with these options.
        DeliveryError: there is no Ray cluster.
        KeyboardInterrupt: Ctrl-C ended the gateway.
    """
    check_extra("gateway", "tidewheel serve", GatewayError)
    given = given_token(options.token_file, os.environ)
    if options.no_token and given is not None:
        raise GatewayError(f"--no-token, and a token in {VARIABLE}: which of them is meant?")
    config = GatewayConfig(
        host=options.host,
        port=options.port,
        flight_port=options.flight_port,
        token=None if options.no_token else given or new_token(),
        origins=frozenset(options.allow_origin),
        max_clients=options.max_clients,
        max_epoch_bytes=options.max_epoch_bytes,
    )
    topics()  # connects this process to the cluster, and fails here if there is none
    sites: list[Site] = [LivePage(PageJobs(most=config.max_clients))]
    if options.ingest:
        sites.append(Ingest(options.ingest))
    with _until_terminated() as ended, Gateway(config, sites) as gateway:
        for line in _announcement(gateway, config, options.ingest, is_new=given is None):
            show(line)
        while not ended.wait(_LOOK_S):
            with suppress(NoCluster):  # leaves a cluster that is gone, and joins it when it is back
                connect_to_running(NoCluster)


def given_token(file: str | None, environment: MutableMapping[str, str]) -> str | None:
    """Return the token in the file or, without a file, in the environment; None without either.

    This removes the token from the environment, so that processes started later do not inherit it.

    Raises:
        GatewayError: the file cannot be read, or contains no token.
    """
    token, place = environment.pop(VARIABLE, None), VARIABLE
    if file is not None:
        place = f"the token file {file!r}"
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise GatewayError(f"{place} cannot be read: {error}") from error
    if token is not None:
        check_token(token, place)
    return token


@contextmanager
def _until_terminated() -> Iterator[threading.Event]:
    ended = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, before)


def _announcement(gateway: Gateway, config: GatewayConfig, ingest: Sequence[str], *, is_new: bool) -> Iterator[str]:
    yield f"page    {gateway.page_url if is_new else gateway.url}"
    yield f"topics  {gateway.url}/topics"
    yield f"flight  {gateway.flight_url}"
    for job in ingest:
        yield f"inputs  {gateway.url}/jobs/{quote(job, safe='')}/inputs/NAME"
    if config.token is None:
        yield "token   none: every program on this machine can read all topics, and send where --ingest lets it"
    elif is_new:
        yield f"token   {config.token}"
    if not config.address.is_loopback:
        yield "data and token are sent without encryption: put a proxy with TLS before it, or use an SSH tunnel"
