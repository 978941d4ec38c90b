"""A source that reads a topic of this or another job: the tokens here follow the frontier there."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tidewheel.progress import TimeDomain
from tidewheel.pubsub import Batch, DeliveryError, Event, Frontier, Subscription
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import NoCluster, UnknownTopic
from tidewheel.runtime import OperatorContext, OperatorSource, OutputPort, Schedule, TokenSet

_TAKE_S = 1.0
_IDLE_S = 0.01
_LOOK_S = 0.5
_MOST_WAITING_BYTES = 8 * 1024 * 1024
_MOST_AT_ONCE = 64


class TopicSource(OperatorSource[Any]):
    """Subscribes on worker 0, which sends on what comes.

    Args:
        topic: its name.
        domain: the times of the dataflow that reads it.
        subscribe: connects to it.
        timeout: how long to wait for it to exist, in seconds; None for ever.
    """

    def __init__(
        self, topic: str, domain: TimeDomain, subscribe: Callable[..., Subscription], timeout: float | None
    ) -> None:
        self._topic = topic
        self._timeout = timeout
        self._domain = domain
        self._subscribe = subscribe

    def build(self, context: OperatorContext) -> Schedule:
        """Return the schedule function; only worker 0's has something to do."""
        if context.worker:
            return lambda output: None
        tokens = TokenSet([context.token()])
        intake = _Intake(self._connect, context.activate)
        context.on_close(intake.close)
        intake.start()

        def schedule(output: OutputPort) -> None:
            if not tokens:
                return
            for event in intake.take(_MOST_AT_ONCE):
                send(event, tokens, output)
            if intake.is_over:
                tokens.discard()
            elif intake.has_more:
                context.activate()
            else:
                context.expect_activation()

        return schedule

    def _connect(self, is_closed: Callable[[], bool]) -> Subscription:
        """Connect; raise DeliveryError if that is not possible, or the topic's times are others than here."""
        until_s = None if self._timeout is None else time.monotonic() + self._timeout
        subscription: Subscription | None = None
        while subscription is None:
            left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
            try:
                subscription = self._subscribe(timeout=_LOOK_S if left_s is None else min(left_s, _LOOK_S))
            except UnknownTopic:
                if left_s == 0.0 or is_closed():
                    raise
            except NoCluster as error:
                if left_s == 0.0 or is_closed():
                    text = (
                        f"no job published topic {self._topic!r} within {self._timeout} s in this process, and {error}"
                    )
                    raise DeliveryError(text, topic=self._topic) from error
                LOCAL_CATALOG.lookup(self._topic, _LOOK_S if left_s is None else min(left_s, _LOOK_S))
        if subscription.domain != self._domain:
            subscription.close()
            raise DeliveryError(
                f"topic {self._topic!r} has times of {subscription.domain!r}, and this dataflow of {self._domain!r}. "
                "Publish it outside of loops, or read it into a dataflow that has its times",
                topic=self._topic,
            )
        return subscription


def send(event: Event, tokens: TokenSet, output: OutputPort) -> None:
    """Do for one event what the other job did: send its batch, or give up the times that its frontier has passed."""
    match event:
        case Batch():
            with tokens.delayed(event.time) as token:
                output.send(token, event.data)
        case Frontier(frontier=frontier):
            tokens.downgrade(frontier)


class _Intake:
    """A thread that waits for what comes, and keeps some of it at hand.

    Args:
        connect: makes the subscription, given what tells whether to give that up.
        wake: has the operator scheduled.
    """

    def __init__(self, connect: Callable[[Callable[[], bool]], Subscription], wake: Callable[[], None]) -> None:
        self._connect = connect
        self._wake = wake
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._error: Exception | None = None
        self._has_ended = False
        self._is_closed = False
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="tidewheel-from-topic", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def take(self, most: int) -> list[Event]:
        """Return the oldest events, ``most`` at most; raise what ended the subscription once there are none."""
        with self._changed:
            if not self._events and self._error is not None:
                raise self._error
            taken = [self._events.popleft() for _ in range(min(most, len(self._events)))]
            self._bytes -= sum(map(_bytes, taken))
            self._changed.notify()
            return taken

    @property
    def has_more(self) -> bool:
        """Whether there is something to be taken, or raised, now."""
        return bool(self._events) or self._error is not None

    @property
    def is_over(self) -> bool:
        """Whether the topic has ended, and all was taken."""
        return self._has_ended and not self._events

    def close(self) -> None:
        """Let go of the topic; the thread ends."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._subscription is not None:
            self._subscription.close()

    def _run(self) -> None:
        try:
            with self._connect(lambda: self._is_closed) as self._subscription:
                self._read(self._subscription)
        except Exception as error:  # noqa: BLE001 - it is raised where the job sees it
            self._error = error
        self._wake()

    def _read(self, subscription: Subscription) -> None:
        while not self._is_closed:
            # A local job that publishes runs when it is read from, and has no way to say that it would have more to do.
            events = subscription.take(0.0 if subscription.is_local else _TAKE_S)
            if events:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed or self._bytes < _MOST_WAITING_BYTES)
                    self._events.extend(events)
                    self._bytes += sum(map(_bytes, events))
                self._wake()
            elif subscription.is_over:
                self._has_ended = True
                return
            elif subscription.is_local:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, _IDLE_S)


def _bytes(event: Event) -> int:
    return len(event.encoded.payload) if isinstance(event, Batch) else 0
