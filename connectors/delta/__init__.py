"""Tables of Delta Lake at the ends of a dataflow: `DeltaSource` reads versions, `DeltaSink` stores epochs.

Importing this package loads no library. Making a source or sink needs the extra ``delta``.
"""

from tidewheel.connectors.delta.delta_sink import DeltaSink
from tidewheel.connectors.delta.delta_source import DeltaSource
from tidewheel.connectors.delta.errors import DeltaError

__all__ = ["DeltaError", "DeltaSink", "DeltaSource"]
