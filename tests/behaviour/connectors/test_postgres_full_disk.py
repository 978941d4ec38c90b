"""A disk of the Postgres server that is full: the sink waits for room, or fails and says so, and no epoch is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tidewheel as tw
from tests.kit.connectors.postgres_fixtures import database, postgres
from tests.kit.connectors.postgres_server import execute
from tests.kit.connectors.small_disk import small_disk
from tidewheel.connectors.postgres import PostgresError, PostgresSink

__all__ = ["database", "postgres"]

SIZE_MB = 8
ROWS = 2000
LINE = "x" * 1000
"""An epoch has 2 MB, and 1 MB is free."""


@pytest.fixture
def ballast(database: str) -> Iterator[Path]:
    """A table `lines` on a disk of its own, and the file there that takes its room."""
    with small_disk(SIZE_MB, "postgres") as disk:
        execute(database, f"CREATE TABLESPACE small LOCATION '{disk}'")
        try:
            execute(database, "CREATE TABLE lines (n int, line text) TABLESPACE small")
            file = disk / "ballast"
            file.write_bytes(bytes((SIZE_MB - 1) << 20))
            yield file
        finally:
            execute(database, "DROP TABLE IF EXISTS lines", "DROP TABLESPACE small")


def flow_to(database: str, retry: tw.Retry) -> tw.Dataflow:
    sink = PostgresSink(database, "lines")
    sink.retry = retry
    flow = tw.Dataflow("lines")
    lines: list[Any] = [(0, [(-1, "")]), (1, [(n, LINE) for n in range(ROWS)])]
    flow.source("lines", tw.IterableSource([lines])).sink(sink).capture("stored")
    return flow


def stored(database: str) -> list[tuple[int]]:
    return execute(database, "SELECT n FROM lines ORDER BY n")


def test_the_sink_waits_for_room(database: str, ballast: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt is a line of the log, with the message of the server. Then the epoch is there, once."""
    retry = tw.Retry(within_s=30, first_pause_s=0.001, longest_pause_s=0.1, on=psycopg.OperationalError)

    def free(record: Any) -> bool:
        if "No space left on device" in record.getMessage():
            ballast.unlink(missing_ok=True)
        return True

    caplog.handler.addFilter(free)
    try:
        with tw.run(flow_to(database, retry), engine="local") as job:
            job.wait(timeout_s=60)
    finally:
        caplog.handler.removeFilter(free)
    assert not ballast.exists(), "no attempt has failed"
    assert stored(database) == [(n,) for n in range(-1, ROWS)]


def test_a_disk_that_stays_full_fails_the_job_and_loses_nothing(database: str, ballast: Path, tmp_path: Path) -> None:
    """The error says why. The job that goes on once there is room stores what is missing."""
    snapshots = tw.Snapshots(tmp_path)
    retry = tw.Retry(attempts=2, first_pause_s=0.001, on=psycopg.OperationalError)
    job = tw.run(flow_to(database, retry), engine="local", snapshots=snapshots)
    with pytest.raises(tw.JobError) as caught, job:
        job.wait(timeout_s=60)
    cause = caught.value.__cause__
    assert isinstance(cause, PostgresError)
    assert "No space left on device" in str(cause)
    assert stored(database) == [(-1,)]
    ballast.unlink()
    with tw.run(flow_to(database, retry), engine="local", snapshots=snapshots) as again:
        again.wait(timeout_s=60)
    assert stored(database) == [(n,) for n in range(-1, ROWS)]
