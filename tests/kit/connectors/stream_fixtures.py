"""The fixtures of tests that need a server of Redis or NATS; without its program they are skipped."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.connectors import stream_servers
from tests.kit.connectors.stream_servers import StreamServer, program


@pytest.fixture(scope="session")
def nats_server() -> Iterator[StreamServer]:
    """A server of NATS of this machine."""
    with stream_servers.nats_server(_installed("nats-server")) as server:
        yield server


@pytest.fixture
def own_nats_server() -> Iterator[StreamServer]:
    """A server that a test may stop."""
    with stream_servers.nats_server(_installed("nats-server")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[StreamServer]:
    """A server of Redis of this machine."""
    with stream_servers.redis_server(_installed("redis-server")) as server:
        yield server


@pytest.fixture
def own_redis_server() -> Iterator[StreamServer]:
    """A server that a test may stop."""
    with stream_servers.redis_server(_installed("redis-server")) as server:
        yield server


@pytest.fixture
def redis_client(redis_server: StreamServer) -> Iterator[Any]:
    """A client of the server."""
    import redis

    with redis.Redis.from_url(redis_server.url, protocol=2) as client:
        yield client


def _installed(name: str) -> str:
    found = program(name)
    if found is None:
        pytest.skip(f"no {name} is installed: apt-get install {name}")
    return found
