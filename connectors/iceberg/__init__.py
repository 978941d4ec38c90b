"""Iceberg tables at the ends of a dataflow: `IcebergSource` reads appended snapshots, `IcebergSink` stores epochs.

Imports here load no library; the extra ``iceberg`` is needed when you make one of them.
"""

from tidewheel.connectors.iceberg.errors import IcebergError
from tidewheel.connectors.iceberg.iceberg_sink import IcebergSink
from tidewheel.connectors.iceberg.iceberg_source import IcebergSource

__all__ = ["IcebergError", "IcebergSink", "IcebergSource"]
