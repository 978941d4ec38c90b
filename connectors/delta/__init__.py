"""Tables of Delta Lake at the ends of a dataflow: `DeltaSource` reads versions, `DeltaSink` stores epochs.

Imports here load no library; the extra ``delta`` is needed when you make one of them.
"""

from tidewheel.connectors.delta.delta_sink import DeltaSink
from tidewheel.connectors.delta.delta_source import DeltaSource
from tidewheel.connectors.delta.errors import DeltaError

__all__ = ["DeltaError", "DeltaSink", "DeltaSource"]
