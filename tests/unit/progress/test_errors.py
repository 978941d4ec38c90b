import pickle

import pytest

from tidewheel.progress import GraphError, ProtocolError, TidewheelError


@pytest.mark.parametrize("kind", [TidewheelError, GraphError, ProtocolError])
def test_errors_cross_processes(kind: type[TidewheelError]) -> None:
    """Every error has the common base, and arrives in another process as it was raised."""
    error = pickle.loads(pickle.dumps(kind("what was wrong")))
    assert type(error) is kind
    assert isinstance(error, TidewheelError)
    assert str(error) == "what was wrong"


def test_a_message_does_not_grow_with_what_it_shows() -> None:
    """Of a long line the beginning and the end are kept, and every other line as it is; pickled, it stays the same."""
    error = GraphError("first line\nthe argument is " + "x" * 1_400_000 + ": use another one\nlast line")
    first, shown, last = str(error).split("\n")
    assert (first, last) == ("first line", "last line")
    assert shown.startswith("the argument is xxx")
    assert shown.endswith("xxx: use another one")
    assert " characters left out] " in shown
    assert len(shown) < 2000
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(GraphError("y" * 2000)) == "y" * 2000
