"""The throughput from one worker to another: lists of tuples, and Arrow tables.

An operator on worker 0 sends batches that it has prepared, over an exchange by a key such that all of them belong to
worker 1, where they are counted. A turn takes from just before the first is sent until the last has been received, by
one clock. Beside it, in turn, the floor: the same batches from one process to another over bare ZeroMQ, lists pickled,
tables as Arrow IPC streams that were written beforehand and are neither copied to be sent nor to be read.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pickle import HIGHEST_PROTOCOL, dumps, loads
from random import Random
from time import perf_counter
from typing import Any

import tidewheel as tw
from benchmarks.measuring.measurement import Report, alternate, arguments
from benchmarks.measuring.transport_floor import Peer, ray_cluster, run_together
from tidewheel.runtime.description.pacts import Key
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.description.shards import owner_of
from tidewheel.transport.link import LinkName

LINKS: tuple[LinkName, ...] = ("socket", "ray")
DEADLINE_S = 60.0
LISTS, TABLES = "lists of tuples", "Arrow tables"
RECORDS_A_LIST, DIFFERENT_LISTS = 1000, 20
ROWS_A_TABLE, DIFFERENT_TABLES = 65_536, 8


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent in a turn: the few batches that ``make()`` returns, over and over until it is enough.

    Attributes:
        make: makes the batches, the same ones every time.
        encode, decode: how the floor puts a batch into a message, and gets the number of its records back.
        key: what exchange goes by.
        messages: how many batches a turn has.
    """

    make: Callable[[], list[Any]]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], int]
    key: Key
    messages: int

    def size(self) -> tuple[int, int]:
        """Return how many records a turn has, and how many bytes they are in messages of the floor's."""
        encoded = [self.encode(batch) for batch in self.make()]
        sent = [encoded[message % len(encoded)] for message in range(self.messages)]
        return sum(map(self.decode, sent)), sum(memoryview(message).nbytes for message in sent)


def main() -> None:
    options = arguments("Measure how fast records go from one worker to another.")
    report = Report()
    with ray_cluster(), ExitStack() as running:
        measure(report, running, quick=options.quick)
    report.finish(options.json)


def measure(report: Report, running: ExitStack, *, quick: bool) -> None:
    """Let the contestants take turns."""
    share = 20 if quick else 1
    lists = Traffic(make_lists, pickle_list, count_pickled, first_field, 1000 // share)
    tables = Traffic(make_tables, write_stream, count_rows, "key", 96 // share)
    contestants: dict[str, Callable[[], float]] = {
        f"{LISTS}, bare ZeroMQ": partial(floor, lists, prepared=False),
        f"{TABLES}, bare ZeroMQ": partial(floor, tables, prepared=True),
        f"{TABLES}, bare ZeroMQ, each written when it is sent": partial(floor, tables, prepared=False),
    }
    for kind, traffic in ((LISTS, lists), (TABLES, tables)):
        for link in LINKS:
            contestants[f"{kind}, link='{link}'"] = deployed(running, traffic, link)
    sizes = {LISTS: lists.size(), TABLES: tables.size()}
    turns = alternate(contestants, rounds=1 if quick else 9)
    rates: dict[str, float] = {}
    for name, seconds in turns.items():
        records, size = sizes[name.partition(",")[0]]
        report.add(f"{name}: records", [records / turn for turn in seconds], "records/s")
        rates[name] = report.add(f"{name}: bytes", [size / turn / 1e6 for turn in seconds], "MB/s")
    ratio = rates[f"{TABLES}, bare ZeroMQ"] / rates[f"{TABLES}, link='socket'"]
    report.expect(f"{TABLES}: bytes a second over bare ZeroMQ and with link='socket', ratio", ratio, 1 / 0.6)


# ---------------------------------------------------------------------- what is sent


def keys_of_worker_1(many: int) -> list[int]:
    """Return keys that belong to the second of two workers."""
    return [key for key in range(4 * many) if owner_of(key, 2) == 1][:many]


def make_lists() -> list[list[tuple[int, int, str]]]:
    random, keys = Random(1), keys_of_worker_1(RECORDS_A_LIST)
    return [
        [(key, random.randrange(1 << 40), f"record {random.randrange(10**6)}") for key in keys]
        for _ in range(DIFFERENT_LISTS)
    ]


def first_field(record: tuple[int, int, str]) -> int:
    return record[0]


def pickle_list(batch: list[Any]) -> bytes:
    return dumps(batch, HIGHEST_PROTOCOL)


def count_pickled(message: Any) -> int:
    return len(loads(message))  # noqa: S301 - from a process of our own


def make_tables() -> list[Any]:
    import numpy as np
    import pyarrow as pa

    random, keys = np.random.default_rng(1), keys_of_worker_1(ROWS_A_TABLE)
    return [
        pa.table(
            {
                "key": pa.array(keys, pa.int64()),
                "value": pa.array(random.random(ROWS_A_TABLE)),
                "name": pa.array([f"record {number}" for number in random.integers(10**6, size=ROWS_A_TABLE)]),
            }
        )
        for _ in range(DIFFERENT_TABLES)
    ]


def write_stream(table: Any) -> Any:
    """Return a table as one buffer."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()


def count_rows(message: Any) -> int:
    """Open a stream in place, and return how many rows it has."""
    import pyarrow as pa

    with pa.ipc.open_stream(message) as reader:
        return int(reader.read_all().num_rows)


# ---------------------------------------------------------------------- tidewheel


def deployed(running: ExitStack, traffic: Traffic, link: LinkName) -> Callable[[], float]:
    """Deploy a dataflow that sends ``traffic`` once an epoch, let one go by, and return what measures the next."""
    job = running.enter_context(deploy(transfer(traffic), 2, link))
    running.callback(job.stop)
    turn = partial(epoch, job, traffic.size()[0], count())
    turn()
    return turn


def deploy(flow: tw.Dataflow, workers: int, link: LinkName) -> tw.types.Job:
    return tw.run(flow, workers=workers, config=tw.RuntimeConfig(link=link))


def transfer(traffic: Traffic) -> tw.Dataflow:
    """Describe the dataflow: an epoch is sent once the input is past it."""
    flow = tw.Dataflow("exchange")
    data, began = flow.operator(
        [flow.input("go")], 2, partial(build_produce, traffic.make, traffic.messages), name="produce"
    )
    began.capture("began")
    data.exchange(traffic.key).unary(build_count, name="count").capture("ended").probe("done")
    return flow


def build_produce(make: Callable[[], list[Any]], messages: int, context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends the batches of an epoch on worker 0, one a step, and before them the time."""
    if context.worker != 0:
        return lambda input, data, began: None
    batches = make()
    tokens = (context.token(0), context.token(1))
    sent = 0

    def schedule(input: tw.InputPort, data: tw.OutputPort, began: tw.OutputPort) -> None:
        nonlocal sent
        epoch = tokens[0].time
        if input.frontier.less_equal(epoch):
            return
        if not sent:
            began.send(tokens[1], [perf_counter()])
        data.send(tokens[0], batches[sent % len(batches)])
        sent += 1
        if sent == messages:
            sent = 0
            for token in tokens:
                token.downgrade(epoch + 1)
        context.activate()

    return schedule


def build_count(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends, once an epoch is complete, how many records it had and when the last came."""
    held: dict[int, tw.TimestampToken] = {}
    records = 0
    last = 0.0

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        nonlocal records, last
        for token, batch in input:
            if token.time not in held:
                held[token.time] = token.retain()
            records += len(batch)
            last = perf_counter()
        for time in [time for time in held if not input.frontier.less_equal(time)]:
            with held.pop(time) as kept:
                output.send(kept, [(records, last)])
            records = 0

    return schedule


def epoch(job: tw.types.Job, records: int, epochs: "count[int]") -> float:
    """Let one epoch go through; return how many seconds there were between the first batch and the last."""
    time = next(epochs)
    job.input("go").advance_to(time + 1)
    job.probe("done").wait_until(time + 1, timeout_s=DEADLINE_S)
    (began,) = captured_at(job, "began", time)
    ((counted, ended),) = captured_at(job, "ended", time)
    assert counted == records, f"{counted:,} of {records:,} records have arrived"
    return float(ended - began)


def captured_at(job: tw.types.Job, name: str, time: int) -> list[Any]:
    return [record for captured in job.captured(name) if captured.time == time for record in captured.batch]


# ---------------------------------------------------------------------- the floor


def floor(traffic: Traffic, *, prepared: bool) -> float:
    """Return how many seconds it takes without tidewheel; messages are encoded beforehand, or as they are sent."""
    began, ended = run_together(send_or_receive, 2, traffic, prepared)
    return float(ended - began)


def send_or_receive(peer: Peer, traffic: Traffic, prepared: bool) -> float:
    """Go through it twice, and return when the second time began or ended."""
    if peer.number:
        receive_all(peer, traffic)
        return receive_all(peer, traffic)
    batches = traffic.make()
    messages = [traffic.encode(batch) for batch in batches] if prepared else []
    send_all(peer, traffic, batches, messages)
    return send_all(peer, traffic, batches, messages)


def send_all(peer: Peer, traffic: Traffic, batches: list[Any], messages: list[Any]) -> float:
    """Send it, and wait until it is there; return when it began."""
    began = perf_counter()
    for number in range(traffic.messages):
        turn = number % len(batches)
        peer.to[1].send(messages[turn] if messages else traffic.encode(batches[turn]), copy=False)
    peer.of[1].recv()
    return began


def receive_all(peer: Peer, traffic: Traffic) -> float:
    """Receive it, and say so; return when it had come."""
    for _ in range(traffic.messages):
        traffic.decode(peer.of[0].recv(copy=False).buffer)
    ended = perf_counter()
    peer.to[0].send(b"")
    return ended


if __name__ == "__main__":
    main()
