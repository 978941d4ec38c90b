"""The check of names that users give to dataflows, operators, inputs, topics, subscriptions and the like.

All names follow one rule, since they occur in JSON, labels of metrics, tables and paths.
"""

import unicodedata
from collections.abc import Callable
from typing import Final

MOST_CHARACTERS: Final = 200
MOST_OF_OPERATORS: Final = 400
"""The largest length of an operator's name, which may contain other names, such as a topic's."""

_CONTROLS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Control characters, halves of characters (surrogates), and the separators of lines and paragraphs."""


def check_name(of: str, name: object, error: Callable[[str], Exception], most: int = MOST_CHARACTERS) -> None:
    """Raise ``error(message)`` unless ``name`` is a valid name; linear.

    >>> check_name("a topic", "words of 今日", ValueError)
    >>> check_name("a topic", "", ValueError)
    Traceback (most recent call last):
    ...
    ValueError: the name of a topic is a text of 1 to 200 characters that are no control characters, not ''
    """
    text = name if isinstance(name, str) else ""
    if 0 < len(text) <= most and (text.isprintable() or _CONTROLS.isdisjoint(map(unicodedata.category, text))):
        return
    shown = f"one of {len(text)}" if len(text) > most else repr(name)
    raise error(f"the name of {of} is a text of 1 to {most} characters that are no control characters, not {shown}")
