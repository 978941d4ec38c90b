"""Waiting for a Ray object in a source: other sources and operators of the worker go on meanwhile."""

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar

from tidewheel.runtime import Pause

if TYPE_CHECKING:
    from ray import ObjectRef

T = TypeVar("T")

POLL_SECONDS = 0.005


def arrival(reference: "ObjectRef[T]", seconds: float) -> Generator[Pause, None, T]:
    """Return an object once it is there.

    Raises:
        ray.exceptions.RayError: it cannot be had; GetTimeoutError after so many seconds.
    """
    import ray

    deadline = time.monotonic() + seconds
    while not ray.wait([reference], timeout=0)[0]:
        if time.monotonic() > deadline:
            raise ray.exceptions.GetTimeoutError(f"it has not come for {seconds:.0f} s")
        yield Pause(POLL_SECONDS)
    value: T = ray.get(reference)
    return value
