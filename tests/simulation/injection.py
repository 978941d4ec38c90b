"""Replacing a method of the core by a wrong one, for a while."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch

Injection: TypeAlias = AbstractContextManager[None]
"""A context in which the core is wrong."""


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a method by what ``make`` makes of it."""
    with patch.object(owner, name, make(getattr(owner, name))):
        yield
