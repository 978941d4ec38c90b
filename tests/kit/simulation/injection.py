"""The replacement of a method by a wrong one, for a while."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch

Injection: TypeAlias = AbstractContextManager[None]
"""A context in which the code under test is wrong."""


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a method, or another attribute, by what ``make`` returns for it."""
    with patch.object(owner, name, make(getattr(owner, name))):
        yield
