"""The life of an epoch."""

import pytest

from tidewheel.progress import IntegerDomain, ProductDomain, ProtocolError
from tidewheel.pubsub.protocol.epoch_states import EpochStates


def state(epochs: EpochStates, time: int) -> str:
    """Return completed, active or latent, by its first letter."""
    if epochs.is_completed(time):
        return "c"
    return "a" if time in epochs.active else "l"


def test_states_follow_data_and_frontier() -> None:
    """The seed's example: completed 0 to 2, active 3 and 5, latent 4, 6, 7 and so on."""
    epochs = EpochStates(IntegerDomain())
    epochs.observe(5)
    epochs.observe(3)
    epochs.advance([(0, -1), (3, 1)])
    assert "".join(state(epochs, time) for time in range(8)) == "cccalall"
    assert epochs.upper() == [5]
    assert list(epochs.lower) == [3]


def test_the_upper_frontier_is_the_maximal_active_epochs() -> None:
    """In a partial order it is an antichain, from which completed epochs are gone."""
    epochs = EpochStates(ProductDomain(IntegerDomain(), IntegerDomain()))
    for time in [(0, 2), (0, 1), (3, 0), (1, 1), (0, 2)]:
        epochs.observe(time)
    assert set(epochs.upper()) == {(0, 2), (3, 0), (1, 1)}
    epochs.advance([((0, 0), -1), ((1, 0), 1)])
    assert set(epochs.upper()) == {(3, 0), (1, 1)}
    assert len(epochs.active) == 2
    epochs.advance([((1, 0), -1)])
    assert epochs.upper() == []


def test_data_of_a_completed_epoch_is_refused() -> None:
    """Nobody may send at a time that the frontier has passed."""
    epochs = EpochStates(IntegerDomain())
    epochs.advance([(0, -1), (2, 1)])
    with pytest.raises(ProtocolError, match=r"at time 1, which the lower frontier .*2.* has passed"):
        epochs.observe(1)


def test_a_frontier_that_moves_back_is_refused() -> None:
    """A lower bound that was given cannot be taken back, not even an empty one."""
    epochs = EpochStates(IntegerDomain())
    epochs.advance([(0, -1), (2, 1)])
    with pytest.raises(ProtocolError, match="moved back"):
        epochs.advance([(1, 1)])
    ended = EpochStates(IntegerDomain())
    ended.advance([(0, -1)])
    with pytest.raises(ProtocolError, match="moved back"):
        ended.advance([(9, 1)])
