"""The link over Ray actor calls for the conformance suite: each member is an actor."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from tests.links.batch_kinds import KINDS
from tests.links.link_kind import DEADLINE_S, INCARNATION, LinkKind, Member, Reflection
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.runtime.worker.ordered_inbox import OrderedInbox
from tidewheel.runtime.worker.worker_actor import CONCURRENT_CALLS
from tidewheel.transport.link import Receiver
from tidewheel.transport.ray_link import CallReceiver, RaySender


class HostActor:
    """Hosts a receiver for each test, by the test's number, since actors take a second to start."""

    def __init__(self) -> None:
        self._receivers: dict[int, CallReceiver[Envelope]] = {}

    def open(self, test: int) -> int:
        self._receivers = {test: CallReceiver[Envelope]()}
        return os.getpid()

    def receive(self, test: int, frames: Sequence[Any]) -> None:
        if test in self._receivers:
            self._receivers[test].deliver(ENVELOPES.decode(frames[0], frames[1:]))

    def take(self, test: int, timeout_s: float) -> list[Envelope]:
        return self._receivers[test].receive(timeout_s)

    def writable(self, test: int) -> list[bool]:
        """Tell for each array that has come whether it can be written to."""
        [envelope] = self._receivers[test].receive(DEADLINE_S)
        return [message.batch.flags.writeable for message in envelope.messages]

    def reflect(self, test: int, home: "Address") -> None:
        """Send everything that comes back to worker 0, in order, until the next test."""
        sender, sequence, inbox = RaySender[Envelope]([home], "", ENVELOPES), 0, OrderedInbox[Envelope]()
        while (receiver := self._receivers.get(test)) is not None:
            for envelope in receiver.receive(1.0):
                for ready in inbox.accept(envelope.sender, envelope.incarnation, envelope.sequence, envelope):
                    sender.send(0, Envelope(1, INCARNATION, sequence, ready.messages, ready.progress))
                    sequence += 1


@dataclass(frozen=True, slots=True)
class Address:
    """An actor as `RaySender` calls it, ``address.receive.remote(job, frames)``, and the number of the test."""

    actor: Any
    test: int

    @property
    def receive(self) -> "Address":
        return self

    def remote(self, _job: str, frames: Sequence[Any]) -> Any:
        return self.actor.receive.remote(self.test, frames)


class HostedReceiver(Receiver[Envelope]):
    """Takes what the receiver in an actor has got."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    def receive(self, timeout_s: float) -> list[Envelope]:
        taken: list[Envelope] = ray.get(self._address.actor.take.remote(self._address.test, timeout_s))
        return taken

    def wake(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class RayKind(LinkKind):
    """Ray actor calls, which run on several threads and so in any order."""

    envelopes = 100
    keeps_order = False
    # Tables within lists go through Ray's own reducers, whose import takes seconds in each actor.
    batches: Mapping[str, Callable[[int], Any]] = {
        name: make for name, make in KINDS.items() if name != "list of tables"
    }

    def __init__(self) -> None:
        self._actors: list[Any] = []
        self._pids: list[int] = []
        self._tests = 0

    def start(self, count: int = 3) -> None:
        """Start the actors that are missing."""
        host = ray.remote(HostActor).options(num_cpus=0, max_concurrency=CONCURRENT_CALLS)
        self._actors += [host.remote() for _ in range(count - len(self._actors))]

    def stop(self) -> None:
        """End all actors."""
        while self._actors:
            ray.kill(self._actors.pop())

    def addresses(self, count: int) -> Sequence[Address]:
        """Have a new receiver in each actor, and return where they are."""
        self.start()
        self._tests += 1
        self._pids = ray.get([actor.open.remote(self._tests) for actor in self._actors])
        return [Address(actor, self._tests) for actor in self._actors[:count]]

    @contextmanager
    def members(self, count: int) -> Iterator[Sequence[Member]]:
        addresses = self.addresses(count)
        yield [
            Member(number, RaySender[Envelope](addresses, "", ENVELOPES), HostedReceiver(one))
            for number, one in enumerate(addresses)
        ]

    @contextmanager
    def reflection(self) -> Iterator[Reflection]:
        addresses = self.addresses(2)
        home = Member(0, RaySender[Envelope](addresses, "", ENVELOPES), HostedReceiver(addresses[0]))
        reflection = Reflection(RaySender[Envelope](addresses, "", ENVELOPES), home, self._pids[1])
        ended = addresses[1].actor.reflect.remote(addresses[1].test, addresses[0])
        try:
            yield reflection
        finally:
            del ended
            if reflection.killed:
                del self._actors[1]
            else:
                reflection.go_on()
