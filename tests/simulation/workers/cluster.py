"""The workers of one life of a simulated job, moved by one event at a time."""

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any

from tests.kit.simulation.violation import TooLargeError, ViolationError
from tests.simulation.network import Link, Network
from tests.simulation.scenario import LifeOptions
from tests.simulation.workers.watch import Watch
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.worker.worker_core import WorkerCore

_MOST_ROUNDS = 20_000


def make_cores(
    life: LifeOptions, plan: Plan, more: Callable[[int], Mapping[str, Any]] = lambda worker: {}
) -> list[WorkerCore]:
    """Return the cores of all workers of a life.

    Args:
        life: how many there are, how progress travels, and how many bytes may be in flight.
        plan: what they run.
        more: returns, for the number of a worker, what it is made with besides.
    """
    return [
        WorkerCore(
            plan,
            worker,
            life.workers,
            progress=life.progress,
            hold_back=life.hold_back,
            bytes_in_flight=life.bytes_in_flight,
            **more(worker),
        )
        for worker in range(life.workers)
    ]


class Cluster:
    """Workers and the envelopes between them.

    Args:
        network: carries the envelopes.
        cores: the workers.
        most_messages: a simulation in which more messages wait at one worker is given up.

    Attributes:
        cores: the workers.
        watches: are told of each event.
        slow: the links of which `move` seldom takes an envelope.
        haste: the chance that `move` delivers rather than steps.
    """

    def __init__(self, network: Network, cores: list[WorkerCore], most_messages: int = 20_000) -> None:
        self.network = network
        self.cores = cores
        self.watches: list[Watch] = []
        self.slow: Collection[Link] = ()
        self.haste = 0.5
        self._most_messages = most_messages

    @property
    def busy(self) -> list[int]:
        """The workers that have something to do."""
        return [worker for worker, core in enumerate(self.cores) if not core.is_idle]

    def step(self, worker: int) -> None:
        """Let a worker take one step, and put what it sends on its way."""
        core = self.cores[worker]
        was_idle = core.is_idle
        for watch in self.watches:
            watch.stepping(worker)
        sent = core.step()
        if was_idle and sent:
            raise ViolationError("idle", f"worker {worker} said that a step would do nothing, and sent {sent}")
        for receiver, envelope in sent:
            self.network.post(worker, receiver, envelope)
        for watch in self.watches:
            watch.stepped(worker, sent)
        if sum(len(port.queue) for port in core._ports.values()) > self._most_messages:
            # Loops double what comes to them, again and again: that says nothing about the runtime.
            raise TooLargeError(f"more than {self._most_messages} messages wait at worker {worker}")

    def deliver(self, sender: int, receiver: int) -> None:
        """Have a worker receive the oldest envelope of a link, if there is one."""
        envelope = self.network.take(sender, receiver)
        if envelope is None:
            return
        for watch in self.watches:
            watch.arriving(sender, receiver, envelope)
        self.cores[receiver].receive(envelope)
        for watch in self.watches:
            watch.arrived(sender, receiver, envelope)

    def move(self, random: Random) -> None:
        """Deliver an envelope of a random link, or let a random worker take a step."""
        waiting = self.network.waiting()
        if waiting and random.random() < self.haste:
            link = random.choice(waiting)
            if link not in self.slow or random.random() < 0.1:
                self.deliver(*link)
            return
        if busy := self.busy:
            self.step(random.choice(busy))

    def settle(self, between: Callable[[], None] = lambda: None) -> None:
        """Deliver and step until there is nothing to deliver and no step to take; ``between`` happens in each round."""
        for _ in range(_MOST_ROUNDS):
            for sender, receiver in self.network.waiting():
                for _ in range(self.network.size((sender, receiver))):
                    self.deliver(sender, receiver)
            between()
            busy = self.busy
            for worker in busy:
                self.step(worker)
            if not busy and not self.network.waiting() and not self._release():
                return
        raise ViolationError("liveness", f"there is no end after {_MOST_ROUNDS} rounds")

    def _release(self) -> bool:
        """Where sources are held back and nothing else happens, let them go on, as a shell does."""
        released = [core.release() for core in self.cores if core.flow.is_held]
        return any(released)
