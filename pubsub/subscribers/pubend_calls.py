"""A reader's calls to a topic's pubends: to subscribe, to subscribe again, to leave, and to end a subscription."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tidewheel.host.ray_cluster import left, membership
from tidewheel.host.retry import Retry
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.subscription import merged
from tidewheel.pubsub.messages.delivery_messages import Begun, Ranges
from tidewheel.pubsub.subscribers.parents import ParentGone, Refused, answer_of, called
from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions

_LOG = logging.getLogger(__name__)

SUBSCRIBED_WITHIN_S: Final = 60.0
LEFT_WITHIN_S: Final = 10.0
_AGAIN = Retry(first_pause_s=0.2, factor=1.0, on=ParentGone)
"""The attempts at a call while a pubend is being restarted."""


class PubendCalls:
    """The calls of one reader."""

    def __init__(self, info: TopicInfo, name: str, reader: str, options: SubscriptionOptions) -> None:
        self.info = info
        self._name = name
        self._joined = membership()
        self._reader = reader
        self.options = options

    def subscribe(self) -> list[Begun]:
        """Subscribe at all pubends; wait for pubends that are being restarted.

        Returns:
            The position at each pubend where the subscription begins.

        Raises:
            DeliveryError: a pubend refuses, or messages that the subscription needs are gone.
        """
        begun = self._answers(lambda number: self._call(number, self.options.tick, again=False))
        self.check(begun)
        return self._agree(begun)

    def check(self, begun: Sequence[Begun]) -> None:
        """Raise DeliveryError if messages that this subscription needs are gone; the next reader begins after them."""
        for partition, one in enumerate(begun):
            if one.lost_end:
                self.leave([one.acknowledged for one in begun])
                raise DeliveryError(
                    f"topic {self.info.name!r}, partition {partition}: subscription {self._name!r} has not had all "
                    f"that was published before tick {one.lost_end}, and it is no longer kept. A durable subscription "
                    "holds messages as long as it is read again within the retention_s= of the topic's log. Subscribe "
                    "again to go on with what there is, with start='earliest' if it is a new one",
                    topic=self.info.name,
                    partition=partition,
                )

    def end(self) -> set[str]:
        """End the subscription for good at all pubends; return the names of the durable subscriptions that existed.

        Raises:
            DeliveryError: a pubend fails; other pubends have ended the subscription.
        """
        pubends = self.info.partitions
        answers = self._answers(lambda number: called(pubends[number].end_subscription, self._name))
        return {name for answer in answers for name in answer}

    def _answers(self, make: Callable[[int], "Future[Any]"]) -> list[Any]:
        deadline_s = time.monotonic() + SUBSCRIBED_WITHIN_S
        calls = [make(number) for number in range(len(self.info.partitions))]
        return [self._answer(number, call, partial(make, number), deadline_s) for number, call in enumerate(calls)]

    def _answer(self, partition: int, call: "Future[Any]", make: Callable[[], "Future[Any]"], deadline_s: float) -> Any:
        waiting: Future[Any] | None = call

        def answer() -> Any:
            nonlocal waiting
            asked, waiting = waiting or make(), None
            try:
                return answer_of(asked, max(0.0, deadline_s - time.monotonic()))
            except ParentGone as error:
                if error.is_for_good:
                    raise PublisherLost.at(self.info.name, partition, f"is dead or broken: {error}") from error
                raise

        try:
            return replace(_AGAIN, within_s=max(0.0, deadline_s - time.monotonic())).call(answer)
        except Refused as error:
            raise PublisherLost.at(self.info.name, partition, str(error)) from error
        except ParentGone as error:
            raise PublisherLost.at(self.info.name, partition, f"is dead or broken: {error}") from error

    def subscribe_again(self, partition: int, tick: int) -> None:
        """Subscribe again at a restarted pubend: from ``tick`` on, unless the pubend remembers the subscription.

        Raises:
            ParentGone: the pubend does not answer.
            DeliveryError: the pubend refuses.
        """
        try:
            answer_of(self._call(partition, tick, again=True), SUBSCRIBED_WITHIN_S)
        except Refused as error:
            raise PublisherLost.at(self.info.name, partition, str(error)) from error

    def _agree(self, begun: Sequence[Begun]) -> list[Begun]:
        """Send all pubends the acknowledgements that some of them know; return the position at each.

        The parts of an epoch are acknowledged together, but the acknowledgement may have reached only some pubends. No
        part may come again.

        Raises:
            DeliveryError: a pubend does not answer.
        """
        known = tuple(one.acknowledged for one in begun)
        for one in begun:
            known = merged(known, one.everywhere)
        deadline_s = time.monotonic() + SUBSCRIBED_WITHIN_S
        agreed = list(begun)
        for partition, ranges in enumerate(known):
            if ranges != begun[partition].acknowledged:
                call = partial(self._call, partition, None, again=True, acknowledged=ranges)
                agreed[partition] = self._answer(partition, call(), call, deadline_s)
        return agreed

    def _call(self, partition: int, tick: int | None, *, again: bool, acknowledged: Ranges = ()) -> "Future[Begun]":
        subscribe = self.info.partitions[partition].subscribe
        durable = self.options.name is not None
        return called(
            subscribe, self._name, self._reader, tick, durable=durable, again=again, acknowledged=acknowledged
        )

    def leave(self, acknowledged: Sequence[Ranges], over: Collection[int] = ()) -> bool:
        """Leave the pubends, with the last acknowledgements of this reader.

        Wait until the pubends have recorded them; return whether all have. If a pubend is dead, its last acknowledged
        messages may come again, and a warning is logged.
        """
        if left(self._joined):
            return False
        deadline_s = time.monotonic() + LEFT_WITHIN_S
        calls = [self._leave(partition, acknowledged) for partition in range(len(acknowledged))]
        errors: list[DeliveryError] = []
        for partition, call in enumerate(calls):
            try:
                self._answer(partition, call, partial(self._leave, partition, acknowledged), deadline_s)
            except DeliveryError as error:
                if partition not in over:
                    errors.append(error)
        if errors and self.options.name is not None:
            _LOG.warning(
                "subscription %r of topic %r: what was acknowledged last may come again: %s",
                self._name,
                self.info.name,
                errors[0],
            )
        return not errors

    def _leave(self, partition: int, acknowledged: Sequence[Ranges]) -> "Future[None]":
        everywhere = tuple(acknowledged) if len(acknowledged) > 1 else ()
        unsubscribe = self.info.partitions[partition].unsubscribe
        return called(unsubscribe, self._reader, acknowledged[partition], everywhere)
