"""Worker cores driven by hand: every envelope passes through here, and is kept."""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import chain, count
from typing import Any, Literal

import tidewheel as tw
from tidewheel.progress import Target, Time
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.messages.envelope import Envelope, InputCommand
from tidewheel.runtime.state.saved_worker import WorkerBeginning
from tidewheel.runtime.tokens.token_ledger import LeakPolicy
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER

MOST_ROUNDS = 5000


class WorkerGroup:
    """All workers of one dataflow.

    Attributes:
        cores: the workers.
        in_flight: for each worker, the envelopes that are on their way to it, in the order in which they were sent.
        sent: every (receiver, envelope) that a worker or the driver ever sent.
        incarnation: that of all workers.
        snapshot: the number of the snapshot in which the driver is.
        hold_back: False lets every step tell what it did at its end.
        on_leak: whether a leak fails the worker.
        beginnings: what each worker has of a snapshot.
        more: further arguments of the workers, by name.
    """

    def __init__(
        self,
        flow: tw.Dataflow,
        workers: int = 2,
        incarnation: int = 0,
        *,
        hold_back: bool = False,
        on_leak: LeakPolicy = "fail",
        beginnings: Sequence[WorkerBeginning] = (),
        **more: Any,
    ) -> None:
        plan = description_of(flow).plan()
        more |= {"incarnation": incarnation, "hold_back": hold_back, "on_leak": on_leak}
        self.cores = [
            WorkerCore(plan, worker, workers, beginning=beginnings[worker] if beginnings else None, **more)
            for worker in range(workers)
        ]
        self.snapshot = beginnings[0].number if beginnings else 0
        self.in_flight: list[deque[Envelope]] = [deque() for _ in range(workers)]
        self.sent: list[tuple[int, Envelope]] = []
        self._from_driver = [count() for _ in range(workers)]
        self._times: dict[str, Time] = dict.fromkeys(plan.inputs, 0)
        self._turns = count()

    # ------------------------------------------------------------------ as the driver

    def command(
        self,
        worker: int,
        name: str,
        action: Literal["send", "advance", "close"],
        time: Time = None,
        batch: Any = None,
    ) -> None:
        """Send one command to one worker."""
        command = InputCommand(name, action, time, batch)
        self.tell(worker, commands=[command])

    def tell(self, worker: int, **fields: Any) -> None:
        """Send an envelope of the driver to one worker."""
        number = next(self._from_driver[worker])
        self._post(worker, Envelope(DRIVER, 0, number, snapshot=self.snapshot, **fields))

    def send(self, name: str, batch: Any, worker: int | None = None) -> None:
        """Send a batch to one worker's share of an input, by default to each in turn."""
        receiver = next(self._turns) % len(self.cores) if worker is None else worker
        self.command(receiver, name, "send", self._times[name], batch)

    def advance(self, name: str, time: Time) -> None:
        """Advance an input on all workers."""
        self._times[name] = time
        for worker in range(len(self.cores)):
            self.command(worker, name, "advance", time)

    def close(self, name: str) -> None:
        """Close an input on all workers."""
        for worker in range(len(self.cores)):
            self.command(worker, name, "close")

    def feed(self, name: str, *epochs: Any) -> None:
        """Send each batch at the next epoch, to each worker in turn, and close the input."""
        for time, batch in enumerate(epochs):
            if time:
                self.advance(name, time)
            if batch:
                self.send(name, batch)
        self.close(name)

    # ------------------------------------------------------------------ as the link

    def deliver(self, worker: int) -> None:
        """Hand a worker all that is on its way to it."""
        while self.in_flight[worker]:
            self.cores[worker].receive(self.in_flight[worker].popleft())

    def step(self, worker: int) -> list[tuple[int, Envelope]]:
        """Let a worker take one step; what it sends is in flight then, and returned."""
        sent = self.cores[worker].step()
        for receiver, envelope in sent:
            self._post(receiver, envelope)
        return sent

    def run(self) -> None:
        """Deliver and step, worker by worker, until there is nothing left to do."""
        for _ in range(MOST_ROUNDS):
            if not any(self.in_flight) and all(core.is_idle for core in self.cores):
                return
            for worker in range(len(self.cores)):
                self.deliver(worker)
                self.step(worker)
        raise AssertionError(f"there is no end after {MOST_ROUNDS} rounds")

    def _post(self, receiver: int, envelope: Envelope) -> None:
        self.in_flight[receiver].append(envelope)
        self.sent.append((receiver, envelope))

    # ------------------------------------------------------------------ looking in

    @property
    def is_complete(self) -> bool:
        """Whether every worker knows that nothing can happen any more."""
        return all(core.is_complete for core in self.cores)

    def captured(self, name: str) -> list[tuple[Time, Any]]:
        """Return what all workers captured, worker by worker."""
        return [result for core in self.cores for result in core.captured(name)]

    def location(self, name: str, port: int = 0) -> int:
        """Return the number of an operator's input port, on all workers together."""
        plan = self.cores[0].plan
        [index] = [index for index, operator in enumerate(plan.operators) if operator.name == name]
        return self.cores[0]._compiled.index[Target(index, port)]

    def messages_on_their_way(self) -> Counter[tuple[int, Time]]:
        """Count, by `location` and time, the messages in flight, held back in an inbox, or waiting in a queue."""
        found: Counter[tuple[int, Time]] = Counter()
        for core, envelopes in zip(self.cores, self.in_flight, strict=True):
            early = (envelope for stream in core._inbox._streams.values() for envelope in stream.early.values())
            messages = [message for envelope in chain(envelopes, early) for message in envelope.messages]
            waiting = chain(messages, *(port.queue for port in core._ports.values()))
            found.update((core._compiled.together[message.target], message.time) for message in waiting)
        return found
