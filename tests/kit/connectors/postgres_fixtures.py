"""The fixtures of tests that need a Postgres server; without its programs they are skipped."""

from collections.abc import Iterator

import pytest

from tests.kit.connectors.postgres_server import PostgresServer, binaries, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server of this machine."""
    programs = binaries()
    if programs is None:
        pytest.skip("no Postgres server is installed: apt-get install postgresql")
    with postgres_server(programs) as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The connection string of an empty schema."""
    return postgres.new_schema()
