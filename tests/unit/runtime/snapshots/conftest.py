"""Folders for snapshots: one of this machine, and one in an S3 that moto's server plays."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.kit.snapshots.fake_s3 import make_bucket, s3_server

_BUCKETS = count(1)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The URL of an S3 server that has no buckets but those that tests make."""
    with s3_server() as url:
        yield url


@pytest.fixture
def s3_environment(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let obstore find the server and credentials in the environment, as it does those of AWS."""
    use_endpoint(s3_endpoint, monkeypatch)
    return s3_endpoint


def use_endpoint(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment for an S3 at this address."""
    settings = {"ENDPOINT": endpoint, "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    settings |= {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "top-secret"}
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture
def bucket(s3_environment: str) -> str:
    """The URL of an empty bucket."""
    name = f"bucket-{next(_BUCKETS)}"
    make_bucket(s3_environment, name)
    return f"s3://{name}"


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty folder for snapshots, of each kind."""
    if request.param == "folder":
        return str(tmp_path / "snapshots")
    return str(request.getfixturevalue("bucket")) + "/job"


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What a test opens, closed at its end."""
    with ExitStack() as stack:
        yield stack
