"""One subscriber of a simulated topic: it connects, asks, gets replies late, twice or never, and comes to an end."""

from collections import deque
from random import Random
from typing import Literal, TypeAlias

from tests.kit.pubsub.numbered import fetched
from tests.kit.simulation.violation import ViolationError
from tests.simulation.topics.life import JoinPoint, Life
from tests.simulation.topics.topic_options import PLENTY, Reading, options_of
from tests.simulation.topics.watch import Watch
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.wire import Numbered, PartitionEnded
from tidewheel.pubsub.protocol.subscriber import Subscriber

State: TypeAlias = Literal["reading", "ended", "left", "lost", "cut off"]
"""The state of a reader; ``"lost"`` is a topic that failed, ``"cut off"`` is about this subscriber alone."""

_LIMITS = (1, 300, 1000, PLENTY, PLENTY)


class Reader:
    """A subscriber, its core, and the replies that are under way to it.

    Args:
        name: its name.
        reading: what it is like.
        life: the topic that it reads.
        random: decides what it does.
    """

    def __init__(self, name: str, reading: Reading, life: Life, random: Random) -> None:
        count = len(life.partitions)
        self.name = name
        self.state: State = "reading"
        self.life = life
        self._reading = reading
        self._random = random
        self.joined: list[JoinPoint | None] = [None] * count
        self.core = Subscriber(life.domain, count, atomic=reading.atomic, may_drop=reading.may_drop, topic="t")
        self.watch = Watch(name, reading, life, self.joined)
        self._unjoined = list(range(count))
        random.shuffle(self._unjoined)
        self._open: list[int] = []
        self._acknowledged = [-1] * count
        self._known = [-1] * count
        self._replies: list[deque[list[Numbered]]] = [deque() for _ in range(count)]
        self._left_after = reading.leaves_after
        if reading.is_first:
            while self._unjoined:
                self._join()

    @property
    def is_over(self) -> bool:
        """Whether it does nothing more."""
        return self.state != "reading"

    def step(self) -> None:
        """Do something: connect, ask, get a reply or lose it, or leave."""
        if self._left_after is not None:
            self._left_after -= 1
            if self._left_after < 0:
                self._close("left")
                return
        if self._unjoined and (not self._open or self._random.random() < 0.4):
            self._join()
            return
        if not self._open:
            return
        number = self._open[int(self._random.random() * len(self._open))]
        replies = self._replies[number]
        if replies and self._random.random() < 0.6:
            reply = replies.popleft()
            if self._random.random() < 0.85:
                self._take(number, reply)
        else:
            self._ask(number, _LIMITS[int(self._random.random() * len(_LIMITS))])

    def drain(self) -> None:
        """Take what there is, with nothing lost any more."""
        while self._unjoined and not self.is_over:
            self._join()
        for number in list(self._open):
            self._ask(number, PLENTY)
            while self._replies[number] and not self.is_over:
                self._take(number, self._replies[number].popleft())

    def _join(self) -> None:
        if self.life.handles[0] is not self.life.publishers[0]:
            self._close("lost")  # it has the addresses of a topic that is no more
            return
        number = self._unjoined.pop()
        self.joined[number] = self.life.join_point(number)
        self.life.handles[number].subscribe(self.name, options_of(self._reading))
        self._open.append(number)

    def _ask(self, number: int, max_bytes: int) -> None:
        reply = fetched(self.life.handles[number], self.name, self._acknowledged[number], max_bytes)
        if (
            self.life.handles[number] is self.life.publishers[number]
            and self._acknowledged[number] > self._known[number]
        ):
            self._known[number] = self._acknowledged[number]
            self.life.took(number, self.name)
        if reply:
            self._replies[number].append(reply)

    def _take(self, number: int, reply: list[Numbered]) -> None:
        for numbered in reply:
            if numbered.sequence > self._acknowledged[number]:
                self.watch.message(number, numbered.message)
            try:
                events = self.core.receive(number, numbered)
            except ProtocolError as error:
                raise ViolationError("protocol", f"{self.name}, partition {number}: {error}") from error
            except DeliveryError as error:
                self._fail(error)
                return
            for event in events:
                self.watch.event(event)
            self._acknowledged[number] = max(self._acknowledged[number], numbered.sequence)
            if isinstance(numbered.message, PartitionEnded):
                self._let_go(number)
                break
        if self.core.is_ended:
            self._close("ended")

    def _let_go(self, number: int) -> None:
        if number in self._open:
            self._open.remove(number)
            self._replies[number].clear()
            self.life.handles[number].unsubscribe(self.name)

    def _fail(self, error: DeliveryError) -> None:
        """End with an error, of which there has to be a reason."""
        text = str(error)
        reason = "held back what is published" if self._reading.slow == "block" else "messages were waiting"
        is_behind = "fell too far behind" in text and reason in text and self.life.capacity_bytes < PLENTY
        is_wrong = "where= failed" in text and self._reading.condition == "raises"
        is_lost = isinstance(error, PublisherLost) or "it is not subscribed" in text
        if not (self.life.has_failed if is_lost else is_behind or is_wrong):
            raise ViolationError("cut off", f"{self.name}, {self._reading}: {error}")
        self._close("lost" if is_lost else "cut off")

    def _close(self, state: State) -> None:
        self.state = state
        for publisher in (*self.life.handles, *self.life.publishers):
            publisher.unsubscribe(self.name)
        self.watch.check_all(self.core.statistics())
