"""How long a message takes from an operator to subscribers, and how much gets there: tidewheel and message brokers.

- Latency: an operator sends 2,000 small records a second, each a batch and an epoch of its own; 200 or 20 where there
  are 10 or 100 subscribers, which is as many deliveries. Each has the time in it, taken just before its ``send``; a
  subscriber in a process of its own looks at the clock when it has the record, decoded. For even times the worker has
  one thread more, which sleeps and activates the operator; other publishers sleep themselves.
- Throughput: an operator sends as fast as it goes: Arrow tables of 10,000 rows, or lists of 1,000 tuples. A turn takes
  from before the first is sent until every subscriber has had, and decoded, the last. What is counted is what came, at
  all subscribers together; what did not is said. A subscriber of tidewheel holds back what it cannot take in time.

Beside it, in turn, from one process to as many subscribers as tidewheel has, in as many processes: Redis pub/sub and
Redis Streams over a Unix socket, with hiredis and pipelines of 32; NATS; and the floor, a bare ZeroMQ socket for each
subscriber. They encode tables as tidewheel does, and lists as MessagePack. The servers are those that are installed,
``apt-get install redis-server nats-server``, started for this; their clients come with the extra ``bench``. A peer that
is missing is said to be. 10 subscribers are in two processes, 100 in four: each in a thread, or those of NATS in one
event loop a process.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

import tidewheel as tw
from measurement import Report, alternate, arguments
from peer_processes import PeerMissingError, PeerProcesses
from pubsub_peers import TOPIC
from pubsub_traffic import Kind, Order, Receipt, Turn, encoded_bytes, prepare
from tidewheel.runtime.plan import Schedule
from transport_floor import ray_cluster

FOLDER = Path(__file__).parent
OURS, FLOOR = "tidewheel", "bare ZeroMQ"
BROKERS = {"Redis pub/sub": "redis", "Redis Streams": "streams", "NATS": "nats"}
SERVERS = {"redis": "redis", "streams": "redis", "nats": "nats"}
PROCESSES = {1: 1, 10: 2, 100: 4}
"""In how many processes so many subscribers are."""
DELIVERIES_A_SECOND = 2000
TIMES_A_TURN = 1_000_000
"""How many epochs of the topic belong to a turn; not all of them are used."""
HELD_S = 0.001
"""When to look again whether subscribers still hold the dataflow back."""
NAMES: dict[Kind, str] = {"tables": "Arrow tables", "lists": "lists of tuples"}

TurnOf = Callable[[Order], list[Receipt]]


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        rounds: how often, at a steady pace.
        seconds: for how long.
        fast_rounds: how often as fast as it goes, which varies more.
        tables, lists: how many a turn then, by the numbers of subscribers.
    """

    rounds: int
    seconds: float
    fast_rounds: int
    tables: dict[int, int]
    lists: dict[int, int]


FULL = Size(9, 3.0, 25, tables={1: 800, 10: 200, 100: 20}, lists={1: 2000})
QUICK = Size(2, 0.3, 2, tables={1: 60, 10: 12}, lists={1: 200})


def main() -> None:
    options = arguments("Measure how long messages take to subscribers, and how many get there.")
    report = Report()
    with TemporaryDirectory(prefix="pubsub-") as folder, ray_cluster(), ExitStack() as running:
        servers = started_servers(running, Path(folder))
        measure(report, running, servers, Path(folder), QUICK if options.quick else FULL)
    report.finish(options.json)


def measure(report: Report, running: ExitStack, servers: dict[str, str], folder: Path, size: Size) -> None:
    """Let the contestants take turns, with more and more subscribers."""
    prepare()
    job = running.enter_context(deploy(described()))
    turns = count()
    brokers = {name: servers[SERVERS[peer]] for name, peer in BROKERS.items() if SERVERS[peer] in servers}
    for subscribers in size.tables:
        sockets = folder / str(subscribers)
        sockets.mkdir()
        with ExitStack() as connected:
            contestants: dict[str, TurnOf] = {OURS: tidewheel(connected, job, turns, subscribers)}
            for name, address in [*brokers.items(), (FLOOR, str(sockets))]:
                try:
                    contestants[name] = peer_turn(connected, BROKERS.get(name, "zeromq"), address, subscribers)
                except PeerMissingError as error:
                    print(f"{name}: missing ({error})")
                    brokers.pop(name, None)
            compare(report, contestants, subscribers, size)


def compare(report: Report, contestants: dict[str, TurnOf], subscribers: int, size: Size) -> None:
    """Measure all that there is to be measured with so many subscribers."""
    rate = DELIVERIES_A_SECOND // subscribers
    measure_latency(
        report, contestants, subscribers, Order("stamps", max(2, int(rate * size.seconds)), rate), size.rounds
    )
    sent: dict[Kind, dict[int, int]] = {"tables": size.tables, "lists": size.lists}
    for kind, messages in sent.items():
        if subscribers in messages:
            measure_throughput(report, contestants, subscribers, Order(kind, messages[subscribers]), size.fast_rounds)


def measure_latency(
    report: Report, contestants: dict[str, TurnOf], subscribers: int, order: Order, rounds: int
) -> None:
    """Report how long messages took, at all subscribers, by turns; and how many there were a second."""
    what = f"{say(subscribers)}, {order.rate:,.0f} messages/s"
    for name, turns in take_turns(contestants, order, rounds).items():
        times = [[latency / 1e3 for receipt in turn for latency in receipt.latencies_ns] for turn in turns]
        cuts = [quantiles(turn, n=100, method="inclusive") for turn in times]
        middle = report.add(f"{what}, {name}: p50", [cut[49] for cut in cuts], "us")
        report.add(f"{what}, {name}: p99", [cut[98] for cut in cuts], "us")
        rates = [order.messages / max(receipt.seconds for receipt in turn) for turn in turns]
        report.add(f"{what}, {name}: rate", rates, "messages/s")
        if name == OURS and subscribers == 1:
            report.expect(f"{what}, {name}: p50, us", middle, 1000)


def measure_throughput(
    report: Report, contestants: dict[str, TurnOf], subscribers: int, order: Order, rounds: int
) -> None:
    """Report how many records and bytes a second came, at all subscribers together."""
    what = f"{say(subscribers)}, {NAMES[order.kind]}"
    size = encoded_bytes(order.kind)
    rates: dict[str, float] = {}
    for name, turns in take_turns(contestants, order, rounds).items():
        seconds = [max(receipt.seconds for receipt in turn) for turn in turns]
        records = [sum(receipt.records for receipt in turn) for turn in turns]
        messages = [sum(receipt.messages for receipt in turn) for turn in turns]
        report.add(f"{what}, {name}: records", [n / s for n, s in zip(records, seconds, strict=True)], "records/s")
        figures = [n * size / s / 1e6 for n, s in zip(messages, seconds, strict=True)]
        rates[name] = report.add(f"{what}, {name}: bytes", figures, "MB/s")
        lost = [subscribers * order.messages - n for n in messages]
        if any(lost):
            report.add(f"{what}, {name}: lost of {subscribers * order.messages:,} messages", lost, "messages")
    best = max((name for name in rates if name in BROKERS), key=rates.__getitem__, default=None)
    if best is not None and order.kind == "tables" and subscribers in {1, 10}:
        report.expect(f"{what}: bytes a second by the best broker and by {OURS}, ratio", rates[best] / rates[OURS], 1)


def take_turns(contestants: dict[str, TurnOf], order: Order, rounds: int) -> dict[str, list[list[Receipt]]]:
    """Have each take one turn that does not count, and then turn by turn ``rounds`` that do."""
    for turn in contestants.values():
        turn(order)
    return alternate({name: partial(turn, order) for name, turn in contestants.items()}, rounds)


def say(subscribers: int) -> str:
    return f"{subscribers} subscriber{'s' * (subscribers > 1)}"


# ---------------------------------------------------------------------- tidewheel


def described() -> tw.Dataflow:
    """Describe a dataflow with an operator that takes orders, and a topic for what it sends."""
    flow = tw.Dataflow("pubsub")
    flow.input("orders").unary("produce", build_produce).publish(TOPIC)
    return flow


def deploy(flow: tw.Dataflow) -> tw.Job:
    return tw.run(flow, workers=1)


def build_produce(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends the batches of an order, each at a time of its own, and when it is due."""
    held: list[tuple[tw.TimestampToken, Turn]] = []
    prepare()

    def schedule(orders: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in orders:
            order = Order(*batch[0])
            held.append((lent.retain(), Turn(order)))
            if order.rate:
                threading.Thread(target=activate_when_due, args=(context, order), daemon=True).start()
        if not held:
            return
        token, turn = held[0]
        if context.is_held and not turn.is_paced:
            context.activator.after(HELD_S)
            return
        while turn.left_s <= 0:
            output.send(token, turn.next())
            if turn.is_over:
                held.pop()[0].discard()
                return
            token.downgrade(token.time + 1)
            if not turn.is_paced:
                context.activate()
                return

    return schedule


def activate_when_due(context: tw.OperatorContext, order: Order) -> None:
    for _ in Turn(order).paced():
        context.activate()


def tidewheel(running: ExitStack, job: tw.Job, turns: "count[int]", subscribers: int) -> TurnOf:
    """Connect subscribers to the topic; return what has the job take a turn."""
    import ray

    address = ray.get_runtime_context().gcs_address
    processes = running.enter_context(PeerProcesses(subscriber_commands(OURS, address, subscribers)))

    def turn(order: Order) -> list[Receipt]:
        job.input("orders").send([tuple(order)])
        job.input("orders").advance_to((next(turns) + 1) * TIMES_A_TURN)
        return receipts_of(processes.ask(OURS))

    return turn


# ---------------------------------------------------------------------- what it is compared with


def started_servers(running: ExitStack, folder: Path) -> dict[str, str]:
    """Start the servers that are there; return their addresses."""
    addresses = {}
    for name in dict.fromkeys(SERVERS.values()):
        try:
            server = running.enter_context(
                PeerProcesses([[sys.executable, FOLDER / "pubsub_servers.py", name, folder]])
            )
        except PeerMissingError as error:
            print(f"{name}: missing ({error})")
        else:
            ((addresses[name], version),) = (answer.split() for answer in server.ask("address"))
            print(f"{name}: version {version}")
    return addresses


def peer_turn(running: ExitStack, peer: str, address: str, subscribers: int) -> TurnOf:
    """Start a peer's publisher and its subscribers; return what has them take a turn.

    Raises:
        PeerMissingError: they do not start.
    """
    publisher = command("publish", peer, address, subscribers)
    processes = running.enter_context(PeerProcesses([publisher, *subscriber_commands(peer, address, subscribers)]))

    def turn(order: Order) -> list[Receipt]:
        return receipts_of(processes.ask(msgspec.json.encode(order).decode())[1:])

    return turn


def subscriber_commands(peer: str, address: str, subscribers: int) -> list[list[str | Path]]:
    each = subscribers // PROCESSES[subscribers]
    return [command("subscribe", peer, address, first, each) for first in range(0, subscribers, each)]


def command(role: str, peer: str, address: str, *numbers: int) -> list[str | Path]:
    return [sys.executable, FOLDER / "pubsub_peers.py", role, peer, address, *map(str, numbers)]


def receipts_of(answers: Sequence[str]) -> list[Receipt]:
    return [receipt for answer in answers for receipt in msgspec.json.decode(answer, type=list[Receipt])]


if __name__ == "__main__":
    main()
