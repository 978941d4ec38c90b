"""Iceberg tables at the ends of a dataflow: `IcebergSource` reads appended snapshots, `IcebergSink` stores epochs.

Importing this package loads no library. Making a source or sink needs the extra ``iceberg``.
"""

from tidewheel.connectors.iceberg.errors import IcebergError
from tidewheel.connectors.iceberg.iceberg_sink import IcebergSink
from tidewheel.connectors.iceberg.iceberg_source import IcebergSource

__all__ = ["IcebergError", "IcebergSink", "IcebergSource"]
