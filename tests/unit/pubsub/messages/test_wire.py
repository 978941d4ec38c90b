"""The wire messages."""

import pickle

import pytest

from tidewheel.pubsub.messages import wire


@pytest.mark.parametrize(
    "message",
    [
        wire.InitialFrontierSnapshot([(0, 1)], [("any", frozenset({1}))]),
        wire.LowerFrontierUpdate([((0, 1), -1), ((0, 2), 1)]),
        wire.DataMessage((0, 1), b"bytes", "pickle", 3),
        wire.EpochsDropped([(0, 1)]),
        wire.PartitionEnded(),
        wire.Failed("why"),
        wire.Rejected(0, "why"),
    ],
)
def test_messages_survive_pickling_with_times_of_any_kind(message: wire.Message) -> None:
    """Messages cross processes pickled, and times are arbitrary hashable values."""
    assert pickle.loads(pickle.dumps(wire.Numbered(7, message))) == wire.Numbered(7, message)


def test_how_many_were_left_out_travels_too() -> None:
    """Otherwise every condition would look like a loss."""
    numbered = wire.Numbered(7, wire.PartitionEnded(), skipped=3)
    assert pickle.loads(pickle.dumps(numbered)).skipped == 3
