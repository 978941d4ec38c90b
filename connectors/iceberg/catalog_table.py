"""Loading a table from a catalog, without keeping secrets; errors say what to do."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidewheel.connectors.base.secret_settings import check_secrets, with_secrets
from tidewheel.connectors.iceberg.errors import IcebergError
from tidewheel.host.extras import check_extra
from tidewheel.progress import GraphError
from tidewheel.progress.redaction import redacted

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_PASSING: Final = (
    "CommitFailedException",
    "CommitStateUnknownException",
    "ServiceUnavailableError",
    "ServerError",
    "TooManyRequestsError",
    "OperationalError",  # of SQLAlchemy, whose database is away or locked
)
"""The names of the errors after which a caller tries again. The next attempt also shows whether the last one was
committed."""


@dataclass(frozen=True, slots=True, repr=False)
class CatalogTable:
    """The name of a table, and the settings of its catalog. Its pickle has no passwords.

    Args:
        kind: the class that loads the table, for errors.
        catalog: the name of a catalog in pyiceberg's configuration, or the properties of a catalog, including ``name``.
        table: the name of the table, including its namespace.

    Raises:
        GraphError: a password is not a `Secret`, or the name has no namespace.
        IcebergError: the extra ``iceberg`` is not installed.
    """

    kind: str
    catalog: str | Mapping[str, Any]
    table: str

    def __post_init__(self) -> None:
        check_extra("iceberg", self.kind, IcebergError)
        if not isinstance(self.table, str) or not all(self.table.split(".")) or "." not in self.table:
            raise GraphError(
                f"{self.kind}: table is a name with its namespace, such as 'sea.tides', not {self.table!r}"
            )
        if not isinstance(self.catalog, str):
            check_secrets(self.kind, "catalog", self.catalog, "CATALOG_PASSWORD")

    def __repr__(self) -> str:
        return f"{self.kind}({self.table!r})"

    def open(self) -> "Catalog":
        """Return the catalog; the caller closes it."""
        from pyiceberg.catalog import load_catalog

        with self.clear_errors():
            if isinstance(self.catalog, str):
                return load_catalog(self.catalog)
            return load_catalog(**{"name": "default", **with_secrets(self.catalog)})

    def load(self, catalog: "Catalog") -> "Table":
        """Return the current table; raise IcebergError if there is none."""
        from pyiceberg.exceptions import NoSuchTableError

        with self.clear_errors():
            try:
                table = catalog.load_table(self.table)
            except NoSuchTableError:
                raise IcebergError(
                    f"{self!r}: the catalog has no such table. Create it, such as by "
                    f"catalog.create_table({self.table!r}, schema=...)"
                ) from None
        if table.format_version < 2:
            raise IcebergError(
                f"{self!r}: the table has format version 1, whose snapshots have no numbers. Upgrade it to version 2"
            )
        return table

    @contextmanager
    def clear_errors(self) -> Iterator[None]:
        """Convert the block's errors: to OSError if another attempt may succeed, else to IcebergError."""
        try:
            yield
        except IcebergError:
            raise
        except Exception as error:
            said = redacted(f"{type(error).__name__}: {' '.join(str(error).split())}")
            if isinstance(error, OSError) or type(error).__name__ in _PASSING:
                raise OSError(said) from None
            raise IcebergError(f"{self!r}: {said}") from error
