"""Postgres: `PostgresChanges` reads the changes of tables, `PostgresSink` stores epochs in a table.

Importing this package loads no library. Making a source or sink needs the extra ``postgres``.
"""

from tidewheel.connectors.postgres.epoch_rows import Deleted
from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.postgres_changes import PostgresChanges
from tidewheel.connectors.postgres.postgres_sink import PostgresSink

__all__ = ["Deleted", "PostgresChanges", "PostgresError", "PostgresSink"]
