"""Messages on their way, by a clock that jumps: lost, late, twice, in another order, or at a link that is cut."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import NamedTuple

LATENCY_S = 0.002


class Weather(NamedTuple):
    """How bad a network is.

    Attributes:
        loss: which part of messages is lost.
        twice: which part comes twice.
        late: which part is late, and so in another order.
    """

    loss: float
    twice: float
    late: float


FAIR = Weather(0.0, 0.0, 0.0)


class Network:
    """A clock, what is to happen, and links that anything can happen to.

    Args:
        random: where all chance comes from.
        weather: how bad it is until `clear_up`.
    """

    def __init__(self, random: Random, weather: Weather) -> None:
        self._random = random
        self._weather = weather
        self._cut: set[frozenset[str]] = set()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.now_s = 0.0

    def at(self, delay_s: float, what: Callable[[], None]) -> None:
        """Have something happen later."""
        heappush(self._events, (self.now_s + delay_s, next(self._numbers), what))

    def send(self, sender: str, receiver: str, what: Callable[[], None]) -> None:
        """Have something happen at the other end of a link, unless it gets lost."""
        random, weather = self._random, self._weather
        if frozenset({sender, receiver}) in self._cut:
            return
        for _ in range(1 + (random.random() < weather.twice)):
            if random.random() >= weather.loss:
                late = random.random() < weather.late
                self.at(LATENCY_S * (random.random() * 30 if late else 1.0), what)

    def cut(self, one: str, other: str, for_s: float) -> None:
        """Have a link lose everything for a while."""
        link = frozenset({one, other})
        self._cut.add(link)
        self.at(for_s, lambda: self._cut.discard(link))

    def clear_up(self) -> None:
        """Lose nothing from now on."""
        self._weather = FAIR
        self._cut.clear()

    def run(self, until_s: float) -> None:
        """Let things happen up to a moment."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, what = heappop(self._events)
            what()
        self.now_s = max(self.now_s, until_s)
