"""Folders for snapshots: one of this machine, and one in an S3 that moto's server plays."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest


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
