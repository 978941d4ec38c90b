"""Fixtures of the tests of the driver's end of an input."""

import pytest

import tidewheel as tw
from tests.kit.runtime.list_feed import ListFeed


@pytest.fixture
def feed() -> ListFeed:
    """A feed of two workers."""
    return ListFeed(2)


@pytest.fixture
def handle(feed: ListFeed) -> tw.types.InputHandle:
    """The first handle of an input."""
    return feed.handle()
