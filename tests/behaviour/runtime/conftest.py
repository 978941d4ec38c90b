"""What tests of the driver's end of an input share."""

from tests.unit.runtime.conftest import feed, handle

__all__ = ["feed", "handle"]
