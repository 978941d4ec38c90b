"""Ray Datasets in and out of dataflows, block by block, without a copy through the driver.

Importing this package does not load Ray Data; the functions load it when you call them.
"""

from tidewheel.connectors.datasets.dataset_sink import to_dataset
from tidewheel.connectors.datasets.dataset_source import from_dataset
from tidewheel.connectors.datasets.errors import DatasetError

__all__ = ["DatasetError", "from_dataset", "to_dataset"]
