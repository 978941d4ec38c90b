"""The records on their way from one random operator to another: none is lost, repeated or brought astray."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from tests.kit.simulation.violation import ViolationError
from tidewheel.progress import Time
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.shards import owner_of

_Port: TypeAlias = tuple[str, int]
"""(the name of an operator, the number of its port)."""


class Mail:
    """Counts records sent and received, on the edges that join a sender and a receiver who both say so.

    Args:
        workers: how many there are.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._edges: dict[_Port, list[tuple[_Port, bool]]] = {}
        self._receivers: set[_Port] = set()
        self._expected: Counter[tuple[_Port, int, Time, int]] = Counter()

    def learn(self, plan: Plan, senders: set[str], receivers: set[str]) -> None:
        """Take the edges from ``senders`` to ``receivers``, operators by name, from the plan that is to run."""
        for operator in plan.operators:
            for port, source in enumerate(operator.sources):
                sender, receiver = _end(plan, source), (operator.name, port)
                if sender[0] in senders and operator.name in receivers:
                    self._edges.setdefault(sender, []).append((receiver, operator.pacts[port] is not None))
                    self._receivers.add(receiver)

    def send(self, sender: _Port, worker: int, time: Time, records: Sequence[int]) -> None:
        """Expect records where they have to go: to the owner of each if they are exchanged, else to the same worker."""
        for receiver, exchanged in self._edges.get(sender, ()):
            for record in records:
                owner = owner_of(record, self._workers) if exchanged else worker
                self._expected[receiver, owner, time, record] += 1

    def receive(self, receiver: _Port, worker: int, time: Time, records: Sequence[int]) -> None:
        """Check that records were to come."""
        if receiver not in self._receivers:
            return
        for record in records:
            key = (receiver, worker, time, record)
            if not self._expected[key]:
                raise ViolationError("data", f"{record} came to {receiver} on worker {worker} at {time!r}, unsent")
            self._expected[key] -= 1

    def check_end(self) -> None:
        """Check that nothing is on its way any more."""
        lost = +self._expected
        if lost:
            raise ViolationError("data", f"these records never came: {dict(lost)}")


def _end(plan: Plan, source: Source) -> _Port:
    return plan.operators[source.operator].name, source.port
