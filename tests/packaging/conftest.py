"""The trees of modules are there as long as the rules look at them."""

from collections.abc import Iterator

import pytest

from tests.packaging.repository import tree_of


@pytest.fixture(scope="package", autouse=True)
def forget_trees() -> Iterator[None]:
    """Have no collection of garbage look at them later."""
    yield
    tree_of.cache_clear()
