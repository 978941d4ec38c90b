"""The fixtures of tests that need an S3, which moto's server plays."""

import socket
from collections.abc import Iterator
from itertools import count

import pytest

from tests.kit.stores.fake_s3 import make_bucket, s3_server, settings

_BUCKETS = count(1)


@pytest.fixture(scope="session")
def s3_port() -> int:
    """A free port for the S3 server, which a cluster has to know before anything is served there."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def s3_endpoint(s3_port: int) -> Iterator[str]:
    """The URL of an S3 server that has no buckets but those that tests make."""
    with s3_server(s3_port) as url:
        yield url


@pytest.fixture
def s3_environment(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let obstore find the server and credentials in the environment, as it does those of AWS."""
    use_endpoint(s3_endpoint, monkeypatch)
    return s3_endpoint


def use_endpoint(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment for an S3 at this address."""
    for name, value in settings(endpoint).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(s3_environment: str) -> str:
    """The URL of an empty bucket."""
    name = f"bucket-{next(_BUCKETS)}"
    make_bucket(s3_environment, name)
    return f"s3://{name}"
