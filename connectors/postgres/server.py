"""Connecting a source or sink to its server, without keeping the password; each wait has a time limit."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.host.extras import check_extra
from tidewheel.runtime.description.secret import Secret
from tidewheel.runtime.errors import ConfigError

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

SETTINGS: Final = {
    "fallback_application_name": "tidewheel",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "client_encoding": "UTF8",
}
"""The default settings of a connection: it notices within a minute that a server has vanished."""

_OPTIONS: Final = "-c lock_timeout=30s -c client_connection_check_interval=5s"
"""Settings of each session: a wait for a lock has a time limit, and the server ends the queries of a dead client."""

_SECRETS: Final = ("password", "sslpassword")
_REFUSED: Final = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|(role|database) \".*\" does not exist"
    r"|permission denied|not permitted to log in|must be superuser or replication role"
)


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """A server and database, and how to connect.

    Args:
        kind: the name of the source or sink that connects, for errors.
        conninfo: a connection string of libpq, or a URI, without a password.
        password: the password; None if a password file or service file has it, or none is needed.

    Raises:
        ConfigError: the string is wrong or has a password, or psycopg is missing.
    """

    kind: str
    conninfo: str
    password: Secret | None

    def __post_init__(self) -> None:
        check_extra("postgres", self.kind, ConfigError)
        found = self._parameters()
        for name in _SECRETS:
            if name in found:
                raise ConfigError(
                    f"{self.kind}: its connection string has a {name}, which would be pickled to each worker. Give "
                    "tw.Secret('DB_PASSWORD') as the password, or keep it in a password file or a service file"
                )
        if self.password is not None and not isinstance(self.password, Secret):
            raise ConfigError(f"{self.kind}: password is a tw.Secret, so that only its name is pickled")

    def _parameters(self) -> dict[str, Any]:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        try:
            return dict(conninfo_to_dict(self.conninfo))
        except (ProgrammingError, TypeError):
            # The error of libpq may quote a part of a password.
            raise ConfigError(
                f"{self.kind}: its connection string is none of libpq. It is such as 'host=db dbname=shop user=tides', "
                "or 'postgresql://db/shop'"
            ) from None

    def __repr__(self) -> str:
        known = self._parameters()
        return " ".join(f"{name}={known[name]}" for name in ("service", "host", "port", "dbname") if name in known)

    def connect(self, *, replicates: bool = False) -> "psycopg.Connection[Any]":
        """Return a connection that commits each statement separately.

        Args:
            replicates: True for a connection that accepts replication commands, and waits for locks without a time
                limit.

        Raises:
            psycopg.OperationalError: the server cannot be reached now.
            PostgresError: the server refuses this user.
        """
        import psycopg

        parameters: dict[str, Any] = {**SETTINGS, **self._parameters()}
        parameters["options"] = f"{parameters.get('options', '')} {_OPTIONS}"
        if replicates:
            parameters["options"] += " -c lock_timeout=0"
            parameters["replication"] = "database"
        if self.password is not None:
            parameters["password"] = self.password.value()
        try:
            connection = psycopg.connect(**parameters, autocommit=True)
        except psycopg.OperationalError as error:
            said = str(error).strip()
            if _REFUSED.search(said):
                raise PostgresError(f"{self.kind}: the server refuses the connection: {said}") from None
            raise
        return connection

    @property
    def passing_errors(self) -> tuple[type[Exception], ...]:
        """The errors of a server that is away, is starting, or accepts no connections: another attempt may succeed."""
        from psycopg import OperationalError

        return OperationalError, OSError

    @contextmanager
    def connected(self, what: str) -> "Iterator[psycopg.Connection[Any]]":
        """Connect for a ``with`` block. Raise PostgresError about ``what`` if another attempt cannot succeed."""
        with refusals(what), self.connect() as connection:
            yield connection


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Convert an error in the ``with`` block to PostgresError about ``what``, if another attempt cannot succeed."""
    import psycopg

    try:
        yield
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise PostgresError(f"{what}: {said_by(error)}") from error


def said_by(error: "psycopg.Error") -> str:
    """Return the server's message, with its detail and hint, on one line."""
    said = error.diag
    if said.message_primary is None:
        return str(error).strip()
    parts = (said.message_primary, said.message_detail, said.message_hint, said.context)
    return ". ".join(part.rstrip(".") for part in parts if part)


def one_row(connection: "psycopg.Connection[Any]", query: Any, *given: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = connection.execute(query, given).fetchone()
    assert found is not None, "the query has one row"
    return found


def composed(query: str, *parts: Any) -> "Composed":
    """Return a query with ``parts``, such as names, in place of its braces."""
    from psycopg.sql import SQL

    return SQL(query).format(*parts)


def names_of(columns: Iterable[str]) -> "Composed":
    """Return quoted names with commas between them."""
    return equal(columns, "{0}", ", ")


def equal(columns: Iterable[str], form: str = "old.{0} = new.{0}", between: str = " AND ") -> "Composed":
    """Return ``form`` for each column, joined by ``between``; by default the condition that all columns are equal."""
    from psycopg.sql import SQL, Identifier

    return SQL(between).join(SQL(form).format(Identifier(name)) for name in columns)
