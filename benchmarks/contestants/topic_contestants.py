"""Those who take turns in a benchmark of topics: tidewheel's job or a peer's publisher, and subscribers to it.

A turn takes from before the first message is sent until every subscriber has had, and decoded, the last.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import NamedTuple, TypeAlias

import msgspec

import tidewheel as tw
from benchmarks.contestants.topic_job import give
from benchmarks.measuring.measurement import Report, alternate
from benchmarks.measuring.peer_processes import PeerMissingError, PeerProcesses, program
from benchmarks.measuring.pubsub_traffic import Order, Receipt

PROCESSES = {0: 0, 1: 1, 10: 2, 100: 4}
"""In how many processes so many subscribers are."""

TurnOf: TypeAlias = Callable[[Order], list[Receipt]]


class Server(NamedTuple):
    """A server that runs.

    Attributes:
        address: where it takes connections.
        version: of its program.
    """

    address: str
    version: str


def started_servers(running: ExitStack, names: Iterable[str], folder: Path) -> dict[str, Server]:
    """Start the servers that are there, each with a folder of its own; return where they are."""
    servers = {}
    for name in names:
        own = folder / name
        own.mkdir()
        try:
            process = running.enter_context(PeerProcesses([program("contestants.pubsub_servers", name, own)]))
        except PeerMissingError as error:
            print(f"{name}: missing ({error})")
        else:
            ((address, version),) = (answer.split() for answer in process.ask("address"))
            servers[name] = Server(address, version)
            print(f"{name}: version {version}")
    return servers


def job_turn(
    running: ExitStack, script: str, job: tw.types.Job, topic: str, subscriber: str, subscribers: int
) -> TurnOf:
    """Connect subscribers to a topic of a job; return what has the job take a turn.

    Args:
        running: ends them.
        script: the module that has them.
        job: runs already.
        topic: its name.
        subscriber: what the module calls them.
        subscribers: how many.
    """
    import ray

    address = ray.get_runtime_context().gcs_address
    processes = running.enter_context(PeerProcesses(subscriber_commands(script, subscriber, address, subscribers)))

    def turn(order: Order) -> list[Receipt]:
        give(job, topic, order)
        return receipts_of(processes.ask(topic))

    return turn


def peer_turn(running: ExitStack, script: str, peer: str, address: str, subscribers: int) -> TurnOf:
    """Start a peer's publisher and its subscribers; return what has them take a turn.

    Raises:
        PeerMissingError: they do not start.
    """
    publisher = command(script, "publish", peer, address, subscribers)
    commands = [publisher, *subscriber_commands(script, peer, address, subscribers)]
    processes = running.enter_context(PeerProcesses(commands))

    def turn(order: Order) -> list[Receipt]:
        return receipts_of(processes.ask(msgspec.json.encode(order).decode()))

    return turn


def subscriber_commands(script: str, peer: str, address: str, subscribers: int) -> list[list[str]]:
    """Return what starts the processes of so many subscribers."""
    each = subscribers // max(1, PROCESSES[subscribers])
    return [
        command(script, "subscribe", peer, address, number * each, each) for number in range(PROCESSES[subscribers])
    ]


def command(script: str, role: str, peer: str, address: str, *numbers: int) -> list[str]:
    """Return what starts a process that plays a role (`peer_roles`)."""
    return program(script, role, peer, address, *numbers)


def receipts_of(answers: Sequence[str]) -> list[Receipt]:
    """Return what subscribers have answered."""
    return [receipt for answer in answers for receipt in msgspec.json.decode(answer, type=list[Receipt])]


def take_turns(
    contestants: Mapping[str, TurnOf], order: Order, rounds: int, random: Random | None = None
) -> dict[str, list[list[Receipt]]]:
    """Have each take one turn that does not count, and then turn by turn ``rounds`` that do, shuffled if asked to."""
    for turn in contestants.values():
        turn(order)
    return alternate({name: partial(turn, order) for name, turn in contestants.items()}, rounds, random)


def measure_latency(
    report: Report, contestants: Mapping[str, TurnOf], subscribers: int, order: Order, rounds: int
) -> dict[str, float]:
    """Report how long messages took, at all subscribers, by turns; and how many there were a second.

    Returns:
        The medians, in microseconds, by the names of the contestants.
    """
    middle = {}
    what = f"{say(subscribers)}, {order.rate:,.0f} messages/s"
    for name, turns in take_turns(contestants, order, rounds).items():
        times = [[latency / 1e3 for receipt in turn for latency in receipt.latencies_ns] for turn in turns]
        cuts = [quantiles(turn, n=100, method="inclusive") for turn in times]
        middle[name] = report.add(f"{what}, {name}: p50", [cut[49] for cut in cuts], "us")
        report.add(f"{what}, {name}: p99", [cut[98] for cut in cuts], "us")
        rates = [order.messages / seconds(turn) for turn in turns]
        report.add(f"{what}, {name}: rate", rates, "messages/s")
    return middle


def seconds(turn: Iterable[Receipt]) -> float:
    """Return how long a turn took."""
    return max(receipt.seconds for receipt in turn)


def say(subscribers: int) -> str:
    """Return how many there are, as a text."""
    return f"{subscribers} subscriber{'s' * (subscribers > 1)}"
