"""Events of a topic that a dataflow reads, where the job that publishes may go back."""

from typing import Any

import pytest

from tests.kit.messages import raises
from tidewheel.operators.sources.topic_source import TopicSource, whole
from tidewheel.progress import Antichain, IntegerDomain
from tidewheel.pubsub.errors import CatalogSilent, DeliveryError, UnknownTopic
from tidewheel.pubsub.messages.events import Batch, End, Event, Frontier, RolledBack, SubscriberStatistics
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.pubsub.protocol.epochs import EpochAssembler

INTEGERS = IntegerDomain()


def batch(time: int, partition: int, number: int) -> Batch:
    return Batch(time, partition, DataMessage(time, b"", "pickle", 1), SubscriberStatistics(), None, number)


def frontier(*times: int) -> Frontier:
    return Frontier(Antichain(INTEGERS, times))


def test_batches_are_held_back_until_their_epoch_is_complete() -> None:
    """The frontier that says so comes behind them; the end comes last."""
    first, second, third = batch(3, 0, 1), batch(4, 1, 1), batch(3, 1, 2)
    events: list[Event] = [first, second, third, frontier(4), frontier(), End()]
    assert list(whole(events, EpochAssembler(INTEGERS))) == [
        *(first, third, frontier(4)),
        *(second, frontier(), End()),
    ]


def test_void_batches_are_never_sent_on() -> None:
    """They come again. The batches of other partitions stand, and those before the return."""
    waiting = EpochAssembler(INTEGERS)
    stands, void, other, again = batch(4, 1, 7), batch(4, 1, 8), batch(4, 0, 9), batch(4, 1, 10)
    assert not list(whole([stands, void, other], waiting))
    events: list[Event] = [RolledBack(1, 7, Antichain(INTEGERS, [3])), again, frontier(5)]
    assert list(whole(events, waiting)) == [other, stands, again, frontier(5)]


def test_the_error_of_a_missing_topic_says_how_long_the_source_has_waited() -> None:
    """Not how long the last of its many looks took."""

    def subscribe(*, timeout_s: float) -> Any:
        raise UnknownTopic(
            f"no job published it within {timeout_s:g} s; there are: a", waited_s=timeout_s, topics=("a",)
        )

    source = TopicSource("nubmers", IntegerDomain(), subscribe, 0.05)
    with raises(UnknownTopic) as caught:
        source._connect(False, lambda: False)
    assert (caught.value.topic, caught.value.waited_s, caught.value.topics) == ("nubmers", 0.05, ("a",))


def test_a_catalog_that_starts_slowly_is_waited_for_like_the_topic() -> None:
    """The first job on a busy cluster starts it; one that does not answer is no error before the timeout."""
    asked: list[float] = []

    def subscribe(*, timeout_s: float) -> Any:
        asked.append(timeout_s)
        if len(asked) < 3:
            raise CatalogSilent("the catalog has not answered")
        raise UnknownTopic("no job published it within 0 s", waited_s=0.0)

    source = TopicSource("numbers", IntegerDomain(), subscribe, 0.0)
    with pytest.raises(DeliveryError, match=r"within 0\.0 s in this process, and the catalog has not answered"):
        source._connect(False, lambda: False)
    assert len(asked) == 1
    source = TopicSource("numbers", IntegerDomain(), subscribe, 60.0)
    with pytest.raises(UnknownTopic):
        source._connect(False, lambda: len(asked) > 2)
    assert len(asked) == 3
