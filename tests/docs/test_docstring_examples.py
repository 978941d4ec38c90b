"""Examples of docstrings become blocks of code in the reference."""

import pytest

from docs.docstring_examples import fenced

EXAMPLE = ">>> 1 + 1\n2"
BLOCK = f"```pycon\n{EXAMPLE}\n```"


@pytest.mark.parametrize(
    ("docstring", "shown"),
    [
        ("Text.", "Text."),
        (f"Text.\n\n{EXAMPLE}", f"Text.\n\n{BLOCK}"),
        (f"Text.\n\n{EXAMPLE}\n\nMore.\n\n{EXAMPLE}", f"Text.\n\n{BLOCK}\n\nMore.\n\n{BLOCK}"),
        (">>> def f():\n...     pass", "```pycon\n>>> def f():\n...     pass\n```"),
        ("Args:\n    a: b.\n\n    >>> 1\n    1", "Args:\n    a: b.\n\n    ```pycon\n    >>> 1\n    1\n    ```"),
    ],
)
def test_an_example_ends_at_an_empty_line(docstring: str, shown: str) -> None:
    """What is before and behind it stays as it is; a block is indented as its example."""
    assert fenced(docstring) == shown
