"""A job of two workers begins again with its logs, cut anywhere: nothing is refused, and each epoch is there once.

Envelopes between workers are delayed differently in each life. So behind an exchange or a loop, batches come in another
order, and records from another worker. A failure says the seed that repeats it.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

import tidewheel as tw
from tests.kit.exactly_once.logs import Log
from tidewheel.progress import IntegerDomain, ProtocolError, Time
from tidewheel.pubsub.exactly_once.journal import next_generation
from tidewheel.pubsub.messages.encoded_message import decode, decode_batch
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, Generation, WentBack
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.pubsub.publishers.epochs_again import differing_epochs
from tidewheel.pubsub.publishers.partition_log import ReplayedLog
from tidewheel.pubsub.publishers.sent_events import SentEvents
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.messages.envelope import Envelope, InputCommand
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER

WORKERS = 2
EPOCHS = 4
LIVES = 4
RUNS = 8
DOMAIN = IntegerDomain()

Build = Callable[[Any], Any]
BUILDS: dict[str, Build] = {
    "map": lambda numbers: numbers.map(lambda n: n + 1),
    "exchange": lambda numbers: numbers.exchange(lambda n: n),
    "rebalance": lambda numbers: numbers.rebalance(),
    "count": lambda numbers: numbers.count().rebalance(),
    "aggregate": lambda numbers: numbers.aggregate(lambda n: n % 3, start=lambda: 0, add=lambda total, n: total + n),
    "distinct": lambda numbers: numbers.distinct(),
    "sort": lambda numbers: numbers.sort(),
    "accumulate": lambda numbers: numbers.accumulate(lambda n: n % 5, start=lambda: 0, add=lambda total, n: total + n),
    "loop": lambda numbers: numbers.exchange(lambda n: n).iterate(
        lambda each: (
            each.map(lambda n: n - 1).filter(lambda n: n > 0).exchange(lambda n: n),
            each.filter(lambda n: n <= 1),
        )
    ),
}


class Connection(PublisherConnection):
    """What a worker publishes, instead of its way to a publisher."""

    def __init__(self, worker: int) -> None:
        super().__init__("topic", worker)
        self.sent: list[FeedEvent] = []

    def _send(self, events: list[FeedEvent]) -> None:
        self.sent += events


def life(build: Build, random: Random) -> list[list[FeedEvent]]:
    """Return what each worker publishes in one life of the job."""
    flow = tw.Dataflow("job")
    build(flow.input("in")).publish("topic")
    plan = description_of(flow).plan()
    connections = [Connection(worker) for worker in range(WORKERS)]
    cores = [WorkerCore(plan, w, WORKERS, {"topic": connections[w]}) for w in range(WORKERS)]
    senders = [DRIVER, *range(WORKERS)]
    links: dict[tuple[Any, int], deque[Envelope]] = {(a, b): deque() for a in senders for b in range(WORKERS)}
    for worker in range(WORKERS):
        commands: list[Any] = []
        for epoch in range(EPOCHS):
            commands += [("send", epoch, [(i * 7 + worker * 3) % 11 for i in range(20)]), ("advance", epoch, epoch + 1)]
        for number, command in enumerate([*commands, ("close", EPOCHS)]):
            links[DRIVER, worker].append(Envelope(DRIVER, 0, number, commands=[InputCommand("in", *command)]))
    while any(links.values()) or not all(core.is_idle for core in cores):
        worker = random.randrange(WORKERS)
        for sender in senders:
            link = links[sender, worker]
            for _ in range(random.randrange(min(len(link), 1 if sender == DRIVER else 9) + 1)):
                cores[worker].receive(link.popleft())
        for peer, envelope in cores[worker].step():
            if peer != DRIVER:
                links[worker, peer].append(envelope)
    return [connection.sent for connection in connections]


def replay(
    sent: list[list[FeedEvent]], logs: list[Log], generation: Generation, random: Random, *, is_last: bool
) -> None:
    """Have both workers send what they publish, or a part."""
    for events, log in zip(sent, logs, strict=True):
        worker = SentEvents(DOMAIN, None, generation)
        log.begin(worker)
        # A job whose topic has ended at one partition alone is not known again: all but the end may come.
        count = len(events) if is_last else max(random.randrange(len(events)) for _ in range(2))
        for event in events[:count]:
            log.feed(worker.add(event))
        log.durable = random.randint(log.durable, len(log.steps))


def records_of(events: list[FeedEvent]) -> Counter[tuple[Time, Any]]:
    """Return the records of what a worker publishes, with their times."""
    batches = [event for event in events if isinstance(event, DataMessage)]
    return Counter((batch.time, record) for batch in batches for record in decode_batch(batch))


def standing(log: Log) -> Counter[tuple[Time, Any]]:
    """Return the records of a log that are not void, with their times."""
    found: list[tuple[int, Time, Any]] = []
    for at, step in enumerate(log.steps):
        message = decode(step.message)
        if isinstance(message, DataMessage):
            found += [(log.tick_of(at), message.time, record) for record in decode_batch(message)]
        elif isinstance(message, WentBack):
            lower = min(message.lower)
            found = [one for one in found if one[1] < lower or one[0] <= message.number]
    return Counter((time, record) for _, time, record in found)


def compared(logs: list[Log]) -> int:
    """Compare what has come again with the logs; return how many epochs were compared."""
    again = [log.again for log in logs]
    if not all(one is None or one.have_come for one in again):
        return 0
    came = [{} if one is None else one.came() for one in again]
    times = {time for sums in came for time in sums}
    logged: list[Any] = [
        dict.fromkeys(times) if one is None else one.logged(cast(ReplayedLog, log), times)
        for one, log in zip(again, logs, strict=True)
    ]
    assert differing_epochs(DOMAIN, came, logged) == []
    return len(times)


@pytest.mark.parametrize("name", BUILDS)
def test_a_job_that_begins_again_is_known_by_its_epochs(name: str) -> None:
    """It dies wherever it is, again and again, until the topic is complete."""
    epochs = 0
    for seed in range(RUNS):
        random = Random(f"{name} {seed}")
        expected = sum(map(records_of, life(BUILDS[name], random)), Counter())
        logs = [Log(DOMAIN, number, WORKERS) for number in range(WORKERS)]
        for last in (False,) * LIVES + (True,):
            generation = next_generation(DOMAIN, [log.place() for log in logs])
            try:
                replay(life(BUILDS[name], random), logs, generation, random, is_last=last)
                epochs += compared(logs)
            except ProtocolError as error:
                raise AssertionError(f"{name}, seed {seed}: {error}") from error
            if not last:
                for log in logs:
                    log.crash(random)
        assert sum(map(standing, logs), Counter()) == expected, f"{name}, seed {seed}"
    assert epochs, "no epoch came again"
