"""The error of Ray Datasets."""

from tidewheel.progress.errors import TidewheelError


class DatasetError(TidewheelError):
    """A Ray Dataset cannot be read or made.

    The message names the dataset, the problem and the remedy.
    """
