"""The programs of the concepts and how-to pages run as they are pasted, and print what the pages show."""

from pathlib import Path

import pytest

from tests.docs.site_snippets import local_pages, run_page
from tests.kit.connectors.postgres_fixtures import postgres
from tests.kit.connectors.postgres_server import PostgresServer, drop_slots, execute
from tests.kit.connectors.stream_fixtures import own_nats_server, own_redis_server
from tests.kit.connectors.stream_servers import StreamServer

__all__ = ["own_nats_server", "own_redis_server", "postgres"]


@pytest.mark.parametrize("page", local_pages())
def test_the_page_runs(page: str, tmp_path: Path) -> None:
    """In one process, without Ray."""
    run_page(page, tmp_path, "local")


def test_the_page_of_windows_runs_but_for_spark(tmp_path: Path) -> None:
    """The whole page is run with Spark, which takes long."""
    run_page("how-to/windows.md", tmp_path, "local", leave_out="spark_bridge")


def test_the_page_of_postgres_runs(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a database that a service file names, as the page says."""
    execute(postgres.conninfo(), "CREATE DATABASE shop")
    services = tmp_path / "services"
    services.write_text(f"[shop]\nhost={postgres.folder}\nuser=postgres\ndbname=shop\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    run_page("how-to/postgres.md", tmp_path, "local")
    drop_slots(postgres.conninfo())
    execute(postgres.conninfo(), "DROP DATABASE shop")


def test_the_page_of_nats_runs(own_nats_server: StreamServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a server whose address is in the environment, as the page says."""
    monkeypatch.setenv("NATS_URL", own_nats_server.url)
    run_page("how-to/nats.md", tmp_path, "local")


def test_the_page_of_redis_runs(
    own_redis_server: StreamServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a server whose address is in the environment, as the page says."""
    monkeypatch.setenv("REDIS_URL", own_redis_server.url)
    run_page("how-to/redis.md", tmp_path, "local")


def test_pages_with_programs_are_found() -> None:
    """A page that is not found is not run."""
    assert len(local_pages()) > 15
