"""The pages of docs/reference/ say what the docstrings say, in Markdown that a checkout shows."""

import pytest

from docs.reference_pages import described, fenced, pages

EXAMPLE = ">>> 1 + 1\n2"
BLOCK = f"```pycon\n{EXAMPLE}\n```"


def test_the_pages_are_as_new() -> None:
    """Whoever changes a docstring runs `make docs`."""
    written = pages()
    old = [path.name for path, text in written.items() if path.read_text(encoding="utf-8") != text]
    assert old == [], "run `make docs`, and commit docs/reference/"
    assert len(written) > 8


def test_a_function_is_described() -> None:
    """With its signature, its arguments and its errors."""
    shown = described("tidewheel.run")
    assert shown.startswith('<a id="tidewheel.run"></a>\n### `run`\n\n```python\nrun(\n    flow: Described,\n    *,\n')
    assert "**Arguments**\n\n- `flow`: " in shown
    assert "**Raises**\n\n- `GraphError`: " in shown


def test_a_class_is_described_with_its_public_methods() -> None:
    """A page may leave some out, or show some alone."""
    own, without = described("tidewheel.types.Job"), described("tidewheel.types.Job", ["without stop"])
    assert '<a id="tidewheel.types.Job.wait"></a>\n#### `wait`' in without
    assert "tidewheel.types.Job.stop" not in without
    assert "tidewheel.types.Job._" not in own
    assert own.count("####") == without.count("####") + 1
    assert described("tidewheel.types.Job", ["members", "only stop"]).count("####") == 1


def test_an_option_that_does_not_exist_is_refused() -> None:
    """Instead of a page that lacks something."""
    with pytest.raises(ValueError, match="inherit'"):
        described("tidewheel.types.Job", ["inherit"])


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
