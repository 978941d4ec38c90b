"""Fixtures of the tests of the driver's end of an input."""

from tests.unit.runtime.conftest import feed, handle

__all__ = ["feed", "handle"]
