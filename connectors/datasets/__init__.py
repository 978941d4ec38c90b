"""Ray Datasets in and out of dataflows, block by block, without a copy through the driver.

Imports here load no library; the public functions import what needs Ray Data when you call them.
"""

from tidewheel.connectors.datasets.dataset_sink import to_dataset
from tidewheel.connectors.datasets.dataset_source import from_dataset
from tidewheel.connectors.datasets.errors import DatasetError

__all__ = ["DatasetError", "from_dataset", "to_dataset"]
