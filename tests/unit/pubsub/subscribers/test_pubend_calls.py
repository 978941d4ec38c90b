"""The calls of a reader to pubends: who comes back after what he has not had is gone is told so, once."""

from collections.abc import Collection, Sequence

from tests.kit.messages import raises
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_messages import Begun, Ranges
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions

INFO = TopicInfo("bills", "job", IntegerDomain(), (None, None), "life", None, "exactly_once")
FRONTIERS = InitialFrontierSnapshot([0], [])


class Calls(PubendCalls):
    """Calls of which one sees the last."""

    left: Sequence[Ranges] | None = None

    def __init__(self) -> None:
        super().__init__(INFO, "billing", "reader", SubscriptionOptions("billing"))

    def leave(self, acknowledged: Sequence[Ranges], over: Collection[int] = ()) -> bool:
        """Note that."""
        self.left = acknowledged
        return True


def begun(lost_end: int) -> Begun:
    return Begun(((0, 5),), 9, FRONTIERS, FRONTIERS, lost_end)


def test_what_is_gone_is_an_error_that_says_what_to_do() -> None:
    """The reader leaves with what it is given as acknowledged, so that the next one goes on."""
    calls = Calls()
    with raises(DeliveryError) as told:
        calls.check([begun(0), begun(8)])
    assert calls.left == [((0, 5),), ((0, 5),)]
    assert (told.value.topic, told.value.partition) == ("bills", 1)


def test_nothing_is_said_where_nothing_is_gone() -> None:
    """As it is nearly always."""
    calls = Calls()
    calls.check([begun(0), begun(0)])
    assert calls.left is None
