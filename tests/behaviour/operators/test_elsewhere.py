"""Errors for users who look for an operator by the name that it has in Spark or Flink."""

import copy

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.operators.stream import _ELSEWHERE


@pytest.mark.parametrize("name", _ELSEWHERE)
def test_an_operator_by_another_name_is_named(name: str) -> None:
    """The error says what it is called here; there is no such operator after all."""
    stream = tw.Dataflow("test").input("numbers")
    with pytest.raises(AttributeError, match=f"^'Stream' object has no attribute '{name}': use "):
        getattr(stream, name)
    assert name not in dir(stream)


def test_what_a_collection_has_is_said() -> None:
    """A total that is kept up to date is sought at the stream, and a fold at the collection."""
    stream = tw.Dataflow("test").input("payments")
    with raises(AttributeError):
        getattr(stream, "reduce_sum")  # noqa: B009 - type checkers know it
    with raises(AttributeError):
        getattr(stream.as_collection(), "accumulate")  # noqa: B009 - type checkers know it


def test_any_other_name_is_refused_as_ever() -> None:
    """Without a hint; what Python looks for is not found either."""
    stream = tw.Dataflow("test").input("numbers")
    with raises(AttributeError):
        getattr(stream, "mop")  # noqa: B009 - type checkers know it
    assert not hasattr(stream, "__array__")
    assert copy.copy(stream)._outlet is stream._outlet


def test_a_stream_is_shown_by_its_operator() -> None:
    """With the output, if that is not the only one."""
    matching, rest = tw.Dataflow("test").input("numbers").branch(bool)
    assert (repr(matching), repr(rest)) == ("<Stream of 'branch'>", "<Stream of 'branch', output 1>")
