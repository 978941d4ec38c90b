"""A catalog of Iceberg tables in a folder: SQLite and local files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

NAME = "sea.tides"


def settings(folder: Path) -> dict[str, Any]:
    """Return the properties of the catalog in a folder."""
    place = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return {"name": "sea", "type": "sql", **place}


@contextmanager
def opened(folder: Path) -> Iterator[Catalog]:
    """Open the catalog for a block."""
    catalog = load_catalog(**settings(folder))
    try:
        yield catalog
    finally:
        catalog.close()


def make_table(folder: Path, schema: pa.Schema, **properties: str) -> dict[str, Any]:
    """Make a table in a new catalog; return its settings."""
    with opened(folder) as catalog:
        catalog.create_namespace("sea")
        catalog.create_table(NAME, schema, properties=properties)
    return settings(folder)


@contextmanager
def table_in(folder: Path) -> Iterator[Table]:
    """Load the table for a block."""
    with opened(folder) as catalog:
        yield catalog.load_table(NAME)


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the table."""
    with table_in(folder) as table:
        rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
        return sorted(rows, key=str)
