"""Catalogs that die and are replaced, under one seed; jobs that publish and die, and others that watch, with delays.

What is real are the cores: `Catalog`, `Registration`, `KnownTopics`. Calls are lost with the catalog that they are at,
before or after it has done what they ask for.
"""

import random
from collections import deque
from dataclasses import dataclass, field

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import Catalog, Listing, TopicEvent, TopicInfo
from tidewheel.pubsub.catalog.known_topics import RELEARN_S, KnownTopics
from tidewheel.pubsub.catalog.registration import Call, Registration
from tidewheel.pubsub.errors import DeliveryError

NAMES = ["a", "b", "c"]
SETTLES_WITHIN = 400
LOST = (False, "")


@dataclass
class Host:
    """One catalog, for as long as its process lives."""

    incarnation: str
    core: Catalog = field(default_factory=Catalog)
    told: list[TopicEvent] = field(default_factory=list)
    is_alive: bool = True

    def take(self, events: list[TopicEvent]) -> None:
        """Tell those who watch."""
        self.told.extend(events)

    def listing(self) -> Listing:
        """Say what there is."""
        return self.core.listing(self.incarnation)


@dataclass
class Out:
    """A call of a job that is out: at which catalog, and its outcome once it has been made."""

    call: Call
    host: Host
    outcome: tuple[bool, str] | None = None


@dataclass
class Publisher:
    """A job with one topic."""

    info: TopicInfo
    registration: Registration = field(default_factory=Registration)
    out: Out | None = None
    is_alive: bool = True
    is_retracted: bool = False

    def answer(self) -> None:
        """Have the catalog do what it was called for, if it can."""
        out = self.out
        if out is None or out.outcome is not None or not out.host.is_alive:
            return
        core = out.host.core
        if out.call == "hold":
            if not core.has(self.info.name, self.info.registration):
                out.outcome = LOST
            return
        try:
            out.host.take(core.register(self.info))
            out.outcome = (True, "")
        except DeliveryError as error:
            out.outcome = (False, str(error))

    def check(self, host: Host, now_s: float) -> None:
        """Take an answer that has come, notice that a catalog has died, and call the one that there is now."""
        if self.out is not None:
            outcome = self.out.outcome if self.out.host.is_alive else LOST
            if outcome is None:
                return
            self.out = None
            is_registered, refusal = outcome
            self.registration.take(is_registered, now_s, refusal)
        call = self.registration.due(now_s)
        if call is not None:
            self.out = Out(call, host)


class Watcher:
    """Follows the catalog: subscribes, lists, and takes event after event; from the start again if the catalog dies."""

    def __init__(self) -> None:
        self.known = KnownTopics()
        self.told: list[TopicEvent] = []
        self._host: Host | None = None
        self._read = 0
        self._is_listed = False

    def step(self, host: Host, now_s: float) -> None:
        """Do the next thing."""
        self.told += self.known.expire(now_s)
        if self._host is None or not self._host.is_alive:
            self._host, self._read, self._is_listed = host, len(host.told), False
        elif not self._is_listed:
            self._is_listed = True
            self.told += self.known.listed(self._host.listing(), now_s)
        elif self._read < len(self._host.told):
            self.told += self.known.changed(self._host.told[self._read])
            self._read += 1

    def has_all_of(self, host: Host) -> bool:
        """Tell whether there is nothing more to read."""
        return self._host is host and self._is_listed and self._read == len(host.told)

    @property
    def topics(self) -> dict[str, str]:
        """What it was told that there is: the registration by the name."""
        there: dict[str, str] = {}
        for event in self.told:
            if event.event == "published":
                there[event.topic] = event.registration
            else:
                del there[event.topic]
        return there


class CatalogWorld:
    """A run: random steps with faults first, and then without them until nothing changes any more.

    Args:
        seed: decides everything.
        steps: how many of the first kind.
        catalog_dies: how likely it is, at each of them, that the catalog does.
    """

    def __init__(self, seed: int, steps: int = 120, catalog_dies: float = 0.03) -> None:
        self._rng = random.Random(seed)
        self._steps = steps
        self._catalog_dies = catalog_dies
        self._lost_answers = 0.02
        self.now_s = 0.0
        self.host = Host("0")
        self.hosts = [self.host]
        self.jobs: list[Publisher] = []
        self.watchers = [Watcher(), Watcher()]
        self._dying: deque[Publisher] = deque()

    def run(self) -> "CatalogWorld":
        """Run it to its end."""
        for _ in range(self._steps):
            self.now_s += self._rng.random()
            if self._rng.random() < self._catalog_dies:
                self.host.is_alive = False
                self.host = Host(str(len(self.hosts)))
                self.hosts.append(self.host)
            if self._rng.random() < 0.1:
                self._start_job()
            if self._rng.random() < 0.05:
                self._end_job()
            self._step()
        self._lost_answers = 0.0
        self.now_s += RELEARN_S
        for _ in range(SETTLES_WITHIN):
            self.now_s += 1.0
            self._step()
        return self

    def _start_job(self) -> None:
        number = len(self.jobs)
        info = TopicInfo(self._rng.choice(NAMES), f"job {number}", IntegerDomain(), ("address",), str(number))
        try:
            self.host.take(self.host.core.register(info))
        except DeliveryError:
            return
        self.jobs.append(Publisher(info))

    def _end_job(self) -> None:
        """Have a job die, which the catalog learns later, or stop, which it tells the catalog that there is then."""
        job = self._rng.choice(self.living or [None])
        if job is None:
            return
        job.is_alive = False
        if self._rng.random() < 0.5:
            job.answer()  # what it has called for before may still come to pass
            self._dying.append(job)
            return
        job.is_retracted = True
        self.host.take(self.host.core.retract(job.info.name, job.info.registration, "it was stopped"))

    def _step(self) -> None:
        """Let about half of what can happen do so."""
        for job in self.living:
            if self._rng.random() < 0.5:
                job.answer()
            if self._rng.random() < 0.5:
                job.check(self.host, self.now_s)
            if job.out is not None and self._rng.random() < self._lost_answers:
                job.out.outcome = LOST
        for watcher in self.watchers:
            if self._rng.random() < 0.7:
                watcher.step(self.host, self.now_s)
        if self._dying and self._rng.random() < 0.5:
            dead = self._dying.popleft()
            self.host.take(self.host.core.retract(dead.info.name, dead.info.registration, "a publisher of it is dead"))

    @property
    def living(self) -> list[Publisher]:
        """The jobs that live."""
        return [job for job in self.jobs if job.is_alive]

    @property
    def found(self) -> dict[str, str]:
        """What the catalog has: the registration by the name."""
        return {info.name: info.registration for info in self.host.core.topics()}
