"""A Postgres database at the ends of a dataflow: `PostgresChanges` reads its changes, `PostgresSink` stores epochs.

Imports here load no library; the extra ``postgres`` is needed when you make one of them.
"""

from tidewheel.connectors.postgres.epoch_rows import Deleted
from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.postgres_changes import PostgresChanges
from tidewheel.connectors.postgres.postgres_sink import PostgresSink

__all__ = ["Deleted", "PostgresChanges", "PostgresError", "PostgresSink"]
