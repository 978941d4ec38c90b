"""A wait for a Ray object that does not block the worker's loop."""

import time
from collections.abc import Generator
from typing import TypeVar

import ray
from ray import ObjectRef

from tidewheel.operators.sources.contract import Pause

T = TypeVar("T")

_POLL_SECONDS = 0.005


def arrival(reference: ObjectRef[T], seconds: float) -> Generator[Pause, None, T]:
    """Return an object when it arrives; meanwhile the worker's other sources and operators go on.

    Raises:
        ray.exceptions.RayError: the object is lost. GetTimeoutError: it has not arrived within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not ray.wait([reference], timeout=0)[0]:
        if time.monotonic() > deadline:
            raise ray.exceptions.GetTimeoutError(f"it has not come for {seconds:.0f} s")
        yield Pause(_POLL_SECONDS)
    value: T = ray.get(reference)
    return value
