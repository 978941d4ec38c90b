"""The calls of a reader to a topic's pubends: to subscribe, and again, to leave, and to end its name."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from tidewheel.progress import TidewheelError
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.messages import Begun, Ranges
from tidewheel.pubsub.exactly_once.subscriptions import merged
from tidewheel.pubsub.subscribers.parents import ParentGone
from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions

_LOG = logging.getLogger(__name__)

SUBSCRIBED_WITHIN_S: Final = 60.0
LEFT_WITHIN_S: Final = 10.0
_AGAIN_S = 0.2


class PubendCalls:
    """The calls of one reader.

    Args:
        info: the topic.
        name: of the subscription.
        reader: the id of the reader.
        options: what it asks for.
    """

    def __init__(self, info: TopicInfo, name: str, reader: str, options: SubscriptionOptions) -> None:
        self._info = info
        self._name = name
        self._reader = reader
        self._options = options
        self._is_durable = options.name is not None

    def subscribe(self) -> list[Begun]:
        """Have all pubends take this reader on, also those that are just being started again.

        Returns:
            Where it begins at each.

        Raises:
            DeliveryError: one of them does not.
        """
        deadline_s = time.monotonic() + SUBSCRIBED_WITHIN_S
        numbers = range(len(self._info.partitions))
        calls = [partial(self._call, number, self._options.tick, again=False) for number in numbers]
        made = [call() for call in calls]
        return [self._answer(number, made[number], calls[number], deadline_s) for number in numbers]

    def end(self) -> set[str]:
        """Have all pubends end the subscription for good; return the durable ones that there were at any of them.

        Raises:
            DeliveryError: one of them does not; others have.
        """
        deadline_s = time.monotonic() + SUBSCRIBED_WITHIN_S
        calls = [partial(pubend.end_subscription.remote, self._name) for pubend in self._info.partitions]
        made = [call() for call in calls]
        answers = [self._answer(number, made[number], call, deadline_s) for number, call in enumerate(calls)]
        return {name for answer in answers for name in answer}

    def _answer(self, partition: int, call: Any, make: Callable[[], Any], deadline_s: float) -> Any:
        """Return what a call returns; where there was nobody to answer it is made again."""
        import ray

        while True:
            try:
                return ray.get(call, timeout=max(0.0, deadline_s - time.monotonic()))
            except ray.exceptions.GetTimeoutError as error:
                text = f"{self.where(partition)}: the publisher has not answered for {SUBSCRIBED_WITHIN_S:g} s"
                raise DeliveryError(text, topic=self._info.name, partition=partition) from error
            except ray.exceptions.ActorUnavailableError as error:
                if time.monotonic() > deadline_s:
                    raise self._refused(partition, error) from error
                time.sleep(_AGAIN_S)
                call = make()
            except ray.exceptions.RayError as error:
                raise self._refused(partition, error) from error

    def subscribe_again(self, partition: int, tick: int) -> None:
        """Have a pubend that was started again go on with this reader, from ``tick`` on if it does not remember.

        Raises:
            ParentGone: it does not answer.
            DeliveryError: it does not take it on.
        """
        import ray

        try:
            ray.get(self._call(partition, tick, again=True), timeout=SUBSCRIBED_WITHIN_S)
        except (ray.exceptions.ActorUnavailableError, ray.exceptions.GetTimeoutError) as error:
            raise ParentGone(f"{self.where(partition)}: {error}") from error
        except ray.exceptions.RayActorError as error:
            raise ParentGone(f"{self.where(partition)}: {error}", is_for_good=True) from error
        except ray.exceptions.RayError as error:
            raise self._refused(partition, error) from error

    def agree(self, begun: Sequence[Begun]) -> list[Begun]:
        """Have all pubends know what some of them know to be acknowledged; return where it goes on at each then.

        What is acknowledged together, such as an epoch, reaches some of them first: it must not come again in part.

        Raises:
            DeliveryError: one of them does not answer.
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

    def _call(self, partition: int, tick: int | None, *, again: bool, acknowledged: Ranges = ()) -> Any:
        return self._info.partitions[partition].subscribe.remote(
            self._name, self._reader, tick, durable=self._is_durable, again=again, acknowledged=acknowledged
        )

    def leave(self, acknowledged: Sequence[Ranges], over: Collection[int] = ()) -> None:
        """Tell the pubends what this reader has acknowledged, and that it goes; wait until they have noted it.

        It makes no difference to them if they are dead, but then what was acknowledged last may come again.

        Args:
            acknowledged: by partition.
            over: the partitions that have ended, and of which all is acknowledged: their pubends may have gone, since
                they wait for just that.
        """
        import ray

        if not ray.is_initialized():
            return
        deadline_s = time.monotonic() + LEFT_WITHIN_S
        calls = [self._leave(partition, acknowledged) for partition in range(len(acknowledged))]
        errors = [self._left(partition, call, acknowledged, deadline_s) for partition, call in enumerate(calls)]
        errors = [error for partition, error in enumerate(errors) if partition not in over]
        if self._is_durable and any(errors):
            _LOG.warning(
                "subscription %r of topic %r: what was acknowledged last may come again: %s",
                self._name,
                self._info.name,
                next(filter(None, errors)),
            )

    def _leave(self, partition: int, acknowledged: Sequence[Ranges]) -> Any:
        everywhere = tuple(acknowledged) if len(acknowledged) > 1 else ()
        return self._info.partitions[partition].unsubscribe.remote(self._reader, acknowledged[partition], everywhere)

    def _left(self, partition: int, call: Any, acknowledged: Sequence[Ranges], deadline_s: float) -> Exception | None:
        """Wait until a pubend has noted that this reader leaves; return why it has not."""
        import ray

        while True:
            try:
                ray.get(call, timeout=max(0.0, deadline_s - time.monotonic()))
            except ray.exceptions.ActorUnavailableError as error:
                if time.monotonic() > deadline_s:
                    return error
                time.sleep(_AGAIN_S)
                call = self._leave(partition, acknowledged)
            except ray.exceptions.RayError as error:
                return error
            else:
                return None

    def where(self, partition: int) -> str:
        """Return what an error is about."""
        return f"topic {self._info.name!r}, partition {partition}"

    def _refused(self, partition: int, error: Exception) -> DeliveryError:
        cause = getattr(error, "cause", None)
        if isinstance(cause, DeliveryError):
            return cause
        if isinstance(cause, TidewheelError):
            return DeliveryError(f"{self.where(partition)}: {cause}", topic=self._info.name, partition=partition)
        text = f"{self.where(partition)}: the publisher is dead or broken: {error}"
        return PublisherLost(text, topic=self._info.name, partition=partition)
