"""Finding out why something cannot be pickled, so that the error names the thing and not what it was packed into."""

import pickle
from typing import Any


def unpicklable(value: Any, otherwise: Exception | None = None) -> str | None:
    """Return why ``value`` cannot be pickled; if it can, what ``otherwise`` says, None if that is None."""
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception as cause:  # noqa: BLE001 - a user's object may raise anything when it is pickled
        return f"{type(cause).__name__}: {cause}"
    return None if otherwise is None else f"{type(otherwise).__name__}: {otherwise}"


def pickled_size(value: Any) -> int:
    """Return how many bytes ``value`` takes when it is pickled, 0 if it cannot be."""
    try:
        return len(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - what a user's value raises is of no interest here
        return 0
