"""What a subscriber may ask of the publishers."""

import pickle
from typing import Any

import pytest

from tidewheel.pubsub import DeliveryError
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.where import Where


@pytest.mark.parametrize("slow", ["drop", None, 3, ["disconnect"]])
def test_a_policy_that_does_not_exist_is_refused(slow: Any) -> None:
    """The error lists those that do."""
    with pytest.raises(DeliveryError, match=r"slow is one of 'disconnect', 'drop_epochs', 'block', not"):
        DeliveryOptions(slow=slow)


def test_options_travel() -> None:
    """They are told to publisher actors, condition and all."""
    options = DeliveryOptions(Where(len), "drop_epochs")
    assert pickle.loads(pickle.dumps(options)) == options
    assert DeliveryOptions() == EVERYTHING
