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
