"""Schedules drawn at random: which of all that could happen next does."""

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.event import Event
from tests.simulation.network import Link
from tidewheel.transport.socket_address import DRIVER

if TYPE_CHECKING:
    from tests.simulation.tokens.token_simulation import TokenSimulation

_FEEDERS = 3


class RandomSchedule:
    """Chooses one event after another, looking at the simulation for what can happen.

    Each schedule has its own weights, so that some hardly ever deliver, and some step one worker only; a link can
    starve for a while, and its envelopes then come all at once.

    Args:
        simulation: what is scheduled.
        random: the choices.
    """

    def __init__(self, simulation: "TokenSimulation", random: Random) -> None:
        self._simulation = simulation
        self._random = random
        self._workers = range(simulation.life.workers)
        self._weights = {
            "step": random.choice((2, 4, 8)),
            "deliver": random.choice((1, 4, 8)),
            "drive": random.choice((2, 4, 6)),
            "outside": random.choice((0, 0.3)),
            "starve": random.choice((0, 0.5)),
            "quiet": random.choice((0, 0.1)),
        }
        self._worker_weights = [random.choice((1, 1, 4)) for _ in self._workers]
        self._burst: deque[Event] = deque()
        self._starving: dict[Link, int] = {}

    def events(self) -> Iterator[Event]:
        """Iterate over the events; each must have happened before the next is asked for."""
        for turn in range(self._simulation.life.events):
            yield self._next(turn)

    def _next(self, turn: int) -> Event:
        if self._burst:
            return self._burst.popleft()
        kinds = list(self._weights)
        match self._random.choices(kinds, [self._weights[kind] for kind in kinds])[0]:
            case "deliver":
                return self._deliver(turn)
            case "drive":
                return self._drive()
            case "outside":
                return Event("outside", (self._worker(), self._random.randrange(1000)))
            case "quiet":
                return Event("quiet")
            case "starve":
                starved = (self._random.choice((DRIVER, DRIVER - 1, *self._workers)), self._worker())
                self._starving[starved] = turn + self._random.randint(5, 40)
        return self._step()

    def _step(self) -> Event:
        """Step a worker, mostly one that has something to do."""
        worker = self._worker()
        if self._simulation.cores[worker].is_idle and self._random.random() < 0.9:
            busy = [other for other in self._workers if not self._simulation.cores[other].is_idle]
            worker = self._random.choice(busy or [worker])
        return Event("step", (worker,))

    def _deliver(self, turn: int) -> Event:
        links = [link for link in self._simulation.network.waiting() if self._starving.get(link, 0) <= turn]
        if not links:
            return self._step()
        link = self._random.choice(links)
        if self._random.random() < 0.2:
            self._burst.extend(Event("deliver", link) for _ in range(self._simulation.network.size(link) - 1))
        return Event("deliver", link)

    def _drive(self) -> Event:
        number, worker = self._random.randrange(len(self._simulation.inputs)), self._worker()
        handles = self._simulation.handles[number, worker]
        handle = self._random.choice([at for at, one in enumerate(handles) if one.is_open] or [0])
        # Handles beyond the first are closed sooner, so that not all times wait for them.
        weights = {"send": 6, "advance": 2, "advance all": 3, "clone": 1, "close": 4 if handle else 1}
        match self._random.choices(list(weights), list(weights.values()))[0]:
            case "advance":
                return Event("advance", (number, worker, handle, self._move()))
            case "advance all":
                move = self._move()
                self._burst.extend(Event("advance", (number, other, handle, move)) for other in self._workers)
                return self._burst.popleft()
            case "clone":
                way, feeder = self._random.randrange(len(self._simulation.moves)), self._random.randrange(_FEEDERS)
                return Event("clone", (number, worker, handle, way, feeder))
            case "close":
                return Event("close", (number, worker, handle))
            case _:
                return Event("send", (number, worker, handle, *self._records()))

    def _records(self) -> Iterator[int]:
        return (self._random.randint(2, 8) for _ in range(self._random.randint(1, 3)))

    def _move(self) -> int:
        return self._random.randrange(1, len(self._simulation.moves))

    def _worker(self) -> int:
        return self._random.choices(self._workers, self._worker_weights)[0]
