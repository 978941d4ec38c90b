"""The errors of delivery."""

import pickle

import pytest

from tidewheel.progress import TidewheelError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, UnknownTopic


@pytest.mark.parametrize(
    "error",
    [
        DeliveryError("what", topic="t", partition=2),
        PublisherLost("what", topic="t", partition=2),
        UnknownTopic("what", topic="t", waited_s=1.5, topics=("a", "b")),
    ],
)
def test_errors_cross_processes_with_their_fields(error: DeliveryError) -> None:
    """Every error is picklable, with message and fields, and a TidewheelError."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == "what"
    assert vars(copy) == vars(error)
    assert isinstance(copy, TidewheelError)
