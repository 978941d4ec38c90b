"""Opening a table by its address, without keeping secrets; errors say what to do."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidewheel.connectors.base.secret_settings import check_secrets, with_secrets
from tidewheel.connectors.delta.errors import DeltaError
from tidewheel.host.extras import check_extra
from tidewheel.progress import GraphError
from tidewheel.progress.redaction import has_apparent_secret, redacted

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

_LIMITS: Final = {"timeout": "30s", "connect_timeout": "10s", "retry_timeout": "15s"}
"""The default time limits of one call to a store; the source or sink itself tries again."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_BACKTRACE: Final = re.compile(r"\n +0: .*", re.DOTALL)
_REFUSED: Final = re.compile(r"\b40[13]\b|Unauthorized|Forbidden|AccessDenied|InvalidAccessKey|SignatureDoesNotMatch")


@dataclass(frozen=True, slots=True, repr=False)
class TableAddress:
    """The address of a table and the options of its store. Its pickle has no passwords.

    Args:
        kind: the class that opens the table, for errors.
        uri: a path, or a URL such as ``s3://bucket/table``.
        options: the storage options of deltalake; a password is a `Secret`.

    Raises:
        GraphError: a password is not a `Secret`, or the address is neither a path nor a URL.
        DeltaError: the extra ``delta`` is not installed.
    """

    kind: str
    uri: str
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        check_extra("delta", self.kind, DeltaError)
        if has_apparent_secret(self.uri):
            raise GraphError(
                f"{self.kind}: the URL of the table has a password, which would be pickled with the dataflow. Give it "
                "as a tw.Secret in storage_options"
            )
        check_secrets(self.kind, "storage_options", self.options, "STORE_KEY")

    @classmethod
    def of(cls, kind: str, table: str | Path, options: Mapping[str, Any] | None) -> "TableAddress":
        """Return the address of a table, with an absolute path, since workers run in other folders."""
        uri = os.fspath(table) if isinstance(table, str | Path) else ""
        if not uri:
            raise GraphError(f"{kind}: the table is a path or a URL, such as 's3://bucket/tides', not {table!r:.200}")
        return cls(kind, uri if "://" in uri else str(Path(uri).absolute()), options or {})

    def __repr__(self) -> str:
        return f"{self.kind}({self.uri!r})"

    def store_options(self) -> dict[str, str] | None:
        """Return the options for one call, with each `Secret` replaced by its value."""
        defaults = _LIMITS if "://" in self.uri else {}
        return {**defaults, **with_secrets(self.options)} or None

    def open(self, version: int | None = None) -> "DeltaTable":
        """Return the table, at a version if one is given; raise DeltaError if there is none."""
        table = self.find(version)
        if table is None:
            raise DeltaError(f"{self!r}: there is no Delta table. Create it, or correct the path and storage_options")
        return table

    def find(self, version: int | None = None) -> "DeltaTable | None":
        """Return the table; None if there is none."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with self.clear_errors():
            try:
                return DeltaTable(self.uri, version, self.store_options())
            except TableNotFoundError:
                return None

    def files(self) -> "FileSystem":
        """Return the files of the table, and of its log."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        with self.clear_errors():
            return PyFileSystem(DeltaStorageHandler(self.uri, self.store_options()))

    @contextmanager
    def clear_errors(self) -> Iterator[None]:
        """Convert the block's errors: to OSError if another attempt may succeed, else to DeltaError."""
        from deltalake.exceptions import CommitFailedError

        try:
            yield
        except (DeltaError, FileNotFoundError):
            raise
        except CommitFailedError as error:  # another writer was faster
            raise OSError(said_by(error)) from None
        except OSError as error:
            if _REFUSED.search(str(error)):
                raise DeltaError(f"{self!r}: the store refuses access: {said_by(error)}") from None
            raise OSError(said_by(error)) from None
        except Exception as error:
            raise DeltaError(f"{self!r}: {said_by(error)}") from error


def said_by(error: Exception) -> str:
    """Return the library's message on one line, without colours, secrets and source locations."""
    said = _BACKTRACE.sub("", _COLOURS.sub("", str(error))).replace("↳", "")
    return redacted(" ".join(said.split()))


def arrow_schema(table: "DeltaTable") -> "pa.Schema":
    """Return the columns of a table."""
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())
