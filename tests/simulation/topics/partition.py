"""One partition upstream of its publisher: random tokens, the batches sent under them, and the frontier they leave.

It also remembers what happened, in a way of its own: the truth that subscribers are compared with.
"""

import pickle
from collections.abc import Callable
from itertools import count
from random import Random

from tests.simulation.topics.topic_options import Order
from tidewheel.progress import IntegerDomain, ProductDomain, Time, TimeDomain
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate

DOMAINS: dict[Order, TimeDomain] = {
    "total": IntegerDomain(),
    "product": ProductDomain(IntegerDomain(), IntegerDomain()),
}


def _integers_less_equal(a: int, b: int) -> bool:
    return a <= b


def _pairs_less_equal(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[0] and a[1] <= b[1]


LESS_EQUAL: dict[Order, Callable[[Time, Time], bool]] = {"total": _integers_less_equal, "product": _pairs_less_equal}
"""The orders, written once more: what is checked is not what checks."""


class Partition:
    """What happens upstream of one publisher.

    Args:
        order: the kind of times.
        random: decides what happens.
        numbers: gives records, each once in a life of the topic.
    """

    def __init__(self, order: Order, random: Random, numbers: "count[int]") -> None:
        self._order = order
        self._less_equal = LESS_EQUAL[order]
        self._random = random
        self._numbers = numbers
        minimum = DOMAINS[order].minimum()
        self._tokens: list[Time] = [minimum]
        self.lower: list[Time] = [minimum]
        self.batches: list[tuple[Time, list[int]]] = []
        self.active: set[Time] = set()

    @property
    def is_over(self) -> bool:
        """Whether nothing comes any more."""
        return not self.lower

    def step(self) -> DataMessage | LowerFrontierUpdate | None:
        """Let something happen; return what the publisher hears of it."""
        if not self._tokens:
            return self._tell_frontier()
        choice = self._random.random()
        index = int(self._random.random() * len(self._tokens))
        if choice < 0.45:
            return self._send(self._later(self._tokens[index]))
        if choice < 0.52:
            self._tokens.append(self._later(self._tokens[index]))
        elif choice < 0.75:
            self._tokens[index] = self._later(self._tokens[index])
        elif choice < 0.78 and (len(self._tokens) > 1 or choice < 0.755):
            del self._tokens[index]
        return self._tell_frontier() if self._random.random() < 0.7 else None

    def end(self) -> LowerFrontierUpdate | None:
        """Discard all tokens; return what the publisher hears of it."""
        self._tokens = []
        return self._tell_frontier()

    def may_come(self, time: Time) -> bool:
        """Tell whether a batch at ``time`` may come, as far as the publisher knows."""
        return any(self._less_equal(element, time) for element in self.lower)

    def _later(self, time: Time) -> Time:
        random = self._random.random()
        if self._order == "total":
            return time + int(random * 3)
        return (time[0] + (random < 0.35), time[1] + (0.2 < random < 0.6))

    def _send(self, time: Time) -> DataMessage:
        size = 1 + int(self._random.random() * 3) if self._random.random() < 0.7 else 60
        records = [next(self._numbers) for _ in range(size)]
        self.batches.append((time, records))
        self.active.add(time)
        return DataMessage(time, pickle.dumps(records), "pickle", size)

    def _tell_frontier(self) -> LowerFrontierUpdate | None:
        tokens = dict.fromkeys(self._tokens)
        lower = [
            time for time in tokens if not any(other != time and self._less_equal(other, time) for other in tokens)
        ]
        changes = [(time, -1) for time in self.lower if time not in lower]
        changes += [(time, 1) for time in lower if time not in self.lower]
        if not changes:
            return None
        self.lower = lower
        self.active = {time for time in self.active if self.may_come(time)}
        return LowerFrontierUpdate(changes)
