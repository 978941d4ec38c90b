"""docs/operators.md says what the docstrings say, and every operator has one with an example."""

import inspect

import pytest

import tidewheel as tw
from docs.operators_table import PAGE, first_line, page, public_methods

METHODS = [
    getattr(owner, name) for owner in (tw.Stream, tw.Dataflow) for name in public_methods(owner) if name in vars(owner)
] + [getattr(tw.Stream, name) for name in public_methods(tw.Stream) if name not in vars(tw.Stream)]


def test_the_page_is_as_new() -> None:
    """Whoever changes an operator runs `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`, and commit docs/operators.md"


def test_every_operator_is_on_the_page_once() -> None:
    """Whatever class it is in."""
    text = page()
    assert {name: text.count(f"| `{name}(") for name in public_methods(tw.Stream)} == dict.fromkeys(
        public_methods(tw.Stream), 1
    )


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_every_operator_has_a_line_and_an_example(method: object) -> None:
    """The first line is a sentence of its own, and the example runs as a doctest, like all of them."""
    text = inspect.getdoc(method) or ""
    assert first_line(method)
    assert text.partition("\n")[0].endswith("."), "the first line of the docstring is no whole sentence"
    assert "\n>>> " in text, "there is no example"
