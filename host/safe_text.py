"""The text of any object, even if its ``repr`` or ``str`` raises."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def safe_text(value: T, to_text: Callable[[T], str] = repr) -> str:
    """Return the ``repr`` of an object, or its ``str``; if that raises, the name of its class.

    >>> class Broken:
    ...     def __repr__(self):
    ...         raise ValueError
    >>> safe_text("a"), safe_text("a", str), safe_text(Broken())
    ("'a'", 'a', '<Broken, whose repr raises ValueError>')
    """
    try:
        return to_text(value)
    except Exception as error:  # noqa: BLE001 - nobody needs it to know what has happened
        return f"<{type(value).__qualname__}, whose {to_text.__name__} raises {type(error).__name__}>"
