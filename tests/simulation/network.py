"""The network of a simulated world and its clock, which jumps from one event to the next.

Workers and feeders speak over links that keep the order: an envelope is on its link until the schedule takes it.
Publishers, relays and subscribers send packets, which take some time by the clock. They may be lost, late, twice, in
another order, or sent over a link that is cut.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import NamedTuple, TypeAlias

from tidewheel.runtime.messages.envelope import Envelope

LATENCY_S = 0.002

Link: TypeAlias = tuple[int, int]
"""(sender, receiver) of envelopes; the driver is `DRIVER`."""


class Weather(NamedTuple):
    """How bad a network is for packets.

    Attributes:
        loss: which part of them is lost.
        twice: which part comes twice.
        late: which part is late, and so in another order.
    """

    loss: float
    twice: float
    late: float


FAIR = Weather(0.0, 0.0, 0.0)


class Line(NamedTuple):
    """How good the connections of workers to publishers are.

    Attributes:
        slowest_s: a message takes so long at most.
        most: so many messages arrive together at most.
        breaks: the chance of a connection to break in each beat of the job.
        again: the chance of a worker without a connection to connect in each beat.
    """

    slowest_s: float
    most: int
    breaks: float
    again: float


GOOD_LINE = Line(slowest_s=0.02, most=1000, breaks=0.0, again=0.3)
BAD_LINE = Line(slowest_s=0.1, most=1, breaks=0.1, again=0.1)


class Network:
    """A clock, the events that are to happen, and links.

    Args:
        random: decides what happens to packets.
        weather: how bad it is for packets until `clear_up`.

    Attributes:
        now_s: the time, in seconds from the beginning.
    """

    def __init__(self, random: Random | None = None, weather: Weather = FAIR) -> None:
        self._random = random if random is not None else Random(0)
        self._weather = weather
        self._cut: set[frozenset[str]] = set()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._in_order: dict[Link, deque[Envelope]] = {}
        self.now_s = 0.0

    # ------------------------------------------------------------------ the clock

    def at(self, delay_s: float, what: Callable[[], None]) -> None:
        """Have something happen after ``delay_s`` seconds."""
        heappush(self._events, (self.now_s + delay_s, next(self._numbers), what))

    def run(self, until_s: float) -> None:
        """Let everything happen that is due by a time."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, what = heappop(self._events)
            what()
        self.now_s = max(self.now_s, until_s)

    # ------------------------------------------------------------------ packets

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

    # ------------------------------------------------------------------ envelopes

    def post(self, sender: int, receiver: int, envelope: Envelope) -> None:
        """Put an envelope on its link, behind those that are there."""
        self._in_order.setdefault((sender, receiver), deque()).append(envelope)

    def take(self, sender: int, receiver: int) -> Envelope | None:
        """Return the oldest envelope on a link; None if there is none."""
        waiting = self._in_order.get((sender, receiver))
        return waiting.popleft() if waiting else None

    def waiting(self) -> list[Link]:
        """Return the links with envelopes."""
        return [link for link, envelopes in self._in_order.items() if envelopes]

    def on(self, sender: int, receiver: int) -> list[Envelope]:
        """Return the envelopes on a link, the oldest first."""
        return list(self._in_order.get((sender, receiver), ()))

    def size(self, link: Link) -> int:
        """Return how many envelopes are on a link."""
        return len(self._in_order.get(link, ()))

    def lose_envelopes(self) -> None:
        """Lose all envelopes: the workers are gone."""
        self._in_order.clear()
