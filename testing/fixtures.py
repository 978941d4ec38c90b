"""Fixtures for pytest: ``pytest_plugins = ["tidewheel.testing.fixtures"]`` in a `conftest.py` adds them."""

from collections.abc import Iterator

import pytest

from tidewheel.testing.fake_broker import FakeBroker


@pytest.fixture
def fake_broker() -> Iterator[FakeBroker]:
    """Return a broker with one partition, 0; its partitions end after the test."""
    broker = FakeBroker()
    yield broker
    broker.end()
