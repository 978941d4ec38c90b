"""The wait of a worker's loop for a Ray object."""

import time
from collections.abc import Generator
from typing import TypeVar

import ray
from ray import ObjectRef

from tidewheel.operators.sources.contract import Pause

T = TypeVar("T")

_POLL_SECONDS = 0.005


def arrival(reference: ObjectRef[T], seconds: float) -> Generator[Pause, None, T]:
    """Return an object once it is there; other sources and operators of the worker go on meanwhile.

    Raises:
        ray.exceptions.RayError: it cannot be had; GetTimeoutError after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not ray.wait([reference], timeout=0)[0]:
        if time.monotonic() > deadline:
            raise ray.exceptions.GetTimeoutError(f"it has not come for {seconds:.0f} s")
        yield Pause(_POLL_SECONDS)
    value: T = ray.get(reference)
    return value
