"""The number of service messages for ends of substreams, in the plain case: one command that ends many keys."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.simulation.network import Network
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.messages.envelope import Envelope, InputAction, InputCommand
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER

KEYS = 50
MOST_A_WORKER = 3
"""The command that ends keys, what the worker tells worker 0, and what that tells the worker."""


def build_watch(told: list[Any]) -> Callable[[Any], Any]:
    """Return the build function of an operator that notes what it is told."""

    def build(context: Any) -> Any:
        def schedule(input: Any) -> None:
            for _ in input:
                pass
            told.extend((context.worker, key) for key in input.ended)

        return schedule

    return build


class Cluster:
    """Workers of a dataflow in which an input is divided, exchanged and watched; who counts service messages."""

    def __init__(self, workers: int) -> None:
        self.told: list[Any] = []
        self.service: Counter[int] = Counter()
        flow = tw.Dataflow("traffic")
        numbers = flow.input("numbers").substreams("keys", key=lambda record: record[0])
        exchanged = numbers.exchange(lambda record: record[1])
        flow.operator([exchanged], 0, build_watch(self.told), bound="soft", name="watch")
        plan = description_of(flow).plan()
        self.cores = [WorkerCore(plan, worker, workers) for worker in range(workers)]
        self._network = Network()
        self._sequences: Counter[int] = Counter()

    def command(self, worker: int, action: InputAction, batch: Any = None, time: int | None = None) -> None:
        """Have a worker's share of the input do something."""
        envelope = Envelope(DRIVER, 0, self._sequences[worker], commands=[InputCommand("numbers", action, time, batch)])
        self._sequences[worker] += 1
        self._network.post(DRIVER, worker, envelope)
        self.service[worker] += action == "end"

    def send(self) -> None:
        """Send records of each key to each worker, which exchanges them with all others."""
        for worker in range(len(self.cores)):
            self.command(worker, "send", [(key, number) for key in range(KEYS) for number in range(4)])

    def end(self) -> None:
        """End all keys at every worker by one command."""
        for worker in range(len(self.cores)):
            self.command(worker, "end", list(range(KEYS)))

    def run(self) -> None:
        """Deliver and step until there is nothing left to do."""
        while self._network.waiting() or not all(core.is_idle for core in self.cores):
            for sender, receiver in self._network.waiting():
                while (envelope := self._network.take(sender, receiver)) is not None:
                    self.cores[receiver].receive(envelope)
            for worker, core in enumerate(self.cores):
                for receiver, envelope in core.step():
                    self._network.post(worker, receiver, envelope)
                    # Counted at the worker that is not worker 0: what it tells, or is told.
                    self.service[worker or receiver] += envelope.substreams is not None

    def check_told(self) -> None:
        """Check that every worker was told of every key once."""
        assert Counter(self.told) == Counter((core.worker, key) for core in self.cores for key in range(KEYS))


@pytest.mark.parametrize("workers", range(2, 9))
def test_a_batch_of_ends_takes_three_messages_a_worker(workers: int) -> None:
    """However many keys end, where all records have come to where they go."""
    cluster = Cluster(workers)
    cluster.send()
    cluster.run()
    assert not +cluster.service
    cluster.end()
    cluster.run()
    cluster.check_told()
    assert max(cluster.service.values()) <= MOST_A_WORKER
    assert sum(cluster.service.values()) == 3 * workers - 2, "worker 0 has only the command"


@pytest.mark.parametrize("workers", range(2, 9))
def test_records_under_way_cost_at_most_one_message_more(workers: int) -> None:
    """Where keys end while their records are on their way, a worker tells what it has received then, too."""
    cluster = Cluster(workers)
    cluster.send()
    cluster.end()
    cluster.run()
    cluster.check_told()
    assert max(cluster.service.values()) <= MOST_A_WORKER + 1


def test_nobody_tells_anything_of_substreams_that_go_on() -> None:
    """Records alone cost no service message, whatever happens to them."""
    cluster = Cluster(3)
    for _ in range(5):
        cluster.send()
        cluster.run()
    assert not +cluster.service
