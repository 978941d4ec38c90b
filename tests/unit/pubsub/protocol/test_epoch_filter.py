"""The filter over all partitions."""

from tidewheel.progress import Antichain, IntegerDomain, ProductDomain
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot
from tidewheel.pubsub.protocol.epoch_filter import EpochFilter

INTEGERS = IntegerDomain()
PAIRS = ProductDomain(INTEGERS, INTEGERS)


def passing(epochs: EpochFilter, times: range) -> list[int]:
    return [time for time in times if epochs.passes(time)]


def test_the_seeds_example_leaves_no_hole() -> None:
    """Completed 0 to 2, active 3 and 5: 4 does not pass although it is latent, so that 5 is no hole."""
    assert passing(EpochFilter(INTEGERS, [InitialFrontierSnapshot([3], [5])]), range(9)) == [6, 7, 8]


def test_an_epoch_that_one_partition_completed_and_another_has_not_begun_does_not_pass() -> None:
    """The first partition's part of it is gone, though it is below no upper frontier."""
    epochs = EpochFilter(INTEGERS, [InitialFrontierSnapshot([4], []), InitialFrontierSnapshot([0], [])])
    assert passing(epochs, range(6)) == [4, 5]


def test_incomparable_times_pass() -> None:
    """What is neither before nor after an active epoch was latent: nothing of it can have been missed."""
    epochs = EpochFilter(PAIRS, [InitialFrontierSnapshot([(0, 0)], [(2, 1)])])
    assert epochs.passes((0, 2))
    assert epochs.passes((3, 0))
    assert not epochs.passes((2, 1))
    assert not epochs.passes((1, 0))


def test_nothing_passes_once_a_partition_has_ended() -> None:
    """A partition whose lower frontier is empty has sent its part of every epoch."""
    epochs = EpochFilter(INTEGERS, [InitialFrontierSnapshot([], []), InitialFrontierSnapshot([0], [])])
    assert passing(epochs, range(5)) == []


def test_it_is_done_when_all_that_can_come_passes() -> None:
    """The filter can be dropped when every element of the frontier passes, and always at the end."""
    epochs = EpochFilter(PAIRS, [InitialFrontierSnapshot([(0, 0)], [(1, 1)])])
    assert not epochs.is_done(Antichain(PAIRS, [(1, 0), (0, 2)]))
    assert epochs.is_done(Antichain(PAIRS, [(2, 0), (0, 2)]))
    assert epochs.is_done(Antichain(PAIRS))
