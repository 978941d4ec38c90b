"""A Postgres server of this machine for tests, in a folder of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from tidewheel.testing.simulated_crash import IN_MEMORY

_NUMBERS = count(1)
_SETTINGS = {
    "wal_level": "logical",
    "fsync": "off",
    "listen_addresses": "''",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "max_connections": "60",
    "shared_buffers": "32MB",
}
_ACCESS = "local all guarded scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
_TIMEOUT_S = 60


def binaries() -> Path | None:
    """Return the folder with the programs of the newest Postgres, as Debian installs it or on the path; or None."""
    found = [place for place in Path("/usr/lib/postgresql").glob("*/bin") if (place / "initdb").is_file()]
    if found:
        return max(found, key=lambda place: int(place.parent.name))
    onpath = shutil.which("initdb")
    return None if onpath is None else Path(onpath).parent


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server that listens on a socket in its folder; user `guarded` needs a password, others none."""

    folder: Path
    programs: Path
    data: Path

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of Postgres, as its user if this is root, which it refuses."""
        command = [str(self.programs / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(
            command, cwd=self.data.parent, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"{program} fails: {done.stdout}\n{done.stderr}"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        options = f"{settings} -c unix_socket_directories={self.folder}"
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", str(self.data), "-w", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; immediately is as a crash."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def conninfo(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return a connection string without a password."""
        return f"host={self.folder} dbname={database} user={user}"

    def new_schema(self) -> str:
        """Make an empty schema; return a connection string with which it is searched first."""
        name = f"tides_{next(_NUMBERS)}"
        execute(self.conninfo(), f"CREATE SCHEMA {name}")
        return f"{self.conninfo()} options='-c search_path={name}'"


def execute(conninfo: str, *queries: Any) -> list[tuple[Any, ...]]:
    """Run queries, each in a transaction; return the rows of the last one, if it has any."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.cursor()
        for query in queries:
            cursor.execute(query)
        return cursor.fetchall() if cursor.description else []


def drop_slots(conninfo: str) -> None:
    """Drop the slots of a server that nothing reads."""
    execute(conninfo, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


@contextmanager
def postgres_server(programs: Path) -> Iterator[PostgresServer]:
    """Start a server for a block."""
    socket, storage = (Path(tempfile.mkdtemp(prefix="tw-pg-", dir=place)) for place in ("/tmp", IN_MEMORY))
    server = PostgresServer(socket, programs, storage / "data")
    try:
        if os.geteuid() == 0:
            shutil.chown(socket, "postgres")
            shutil.chown(storage, "postgres")
        data = str(server.data)
        server.run("initdb", "-D", data, "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C")
        (server.data / "pg_hba.conf").write_text(_ACCESS)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(storage)
        shutil.rmtree(socket)
