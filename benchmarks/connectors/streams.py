"""The time in which a job reads and writes streams of NATS JetStream and of Redis, beside bare loops of their clients.

The servers are of this machine, and do not wait for its disk. Each loop only counts messages: of NATS one has an
ordered push consumer of nats-py, one its ``fetch`` of a pull consumer, and one reads messages singly by their sequence.
A job makes records of them, and its time has its start and its end.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any

import nats
import redis
from nats.js import api

import tidewheel as tw
from benchmarks.measuring.measurement import Report, alternate, parser
from tests.kit.connectors.stream_servers import StreamServer, nats_server, new_nats_stream, program, redis_server
from tidewheel.connectors.nats import NatsRecord, NatsSink, NatsSource
from tidewheel.connectors.redis import RedisRecord, RedisSink, RedisSource

VALUE = b'{"town":"Brest","hour":4,"height_m":6.25}'
SINGLE = 20
"""One in so many messages is read by the loop that reads them singly."""

_STREAMS = count()


def main() -> None:
    options = parser("Measure how fast streams of NATS and Redis are read and written.").parse_args()
    binaries = {name: program(name) for name in ("nats-server", "redis-server")}
    if None in binaries.values():
        sys.exit("a server is missing: apt-get install nats-server redis-server")
    records, rounds = (20_000, 3) if options.quick else (60_000, 7)
    report = Report()
    with nats_server(str(binaries["nats-server"])) as server:
        stream = new_nats_stream(server)
        with_nats(server, partial(fill_nats, stream, records))
        measure(
            report,
            f"{records:,} messages of NATS",
            rounds,
            {
                "an ordered push consumer, counted": lambda: with_nats(server, partial(push, stream, records)),
                "fetch of a pull consumer, counted": lambda: with_nats(server, partial(fetch, stream, records)),
                f"one in {SINGLE} singly, counted": lambda: with_nats(server, partial(single, stream, records)),
                "a job with NatsSource": lambda: job_s(NatsSource(server.url, stream, bounded=True), records),
            },
        )
        measure(
            report,
            f"{records:,} messages to NATS",
            rounds,
            {
                "publish_async": lambda: with_nats(server, partial(fill_nats, new_nats_stream(server), records)),
                "an epoch of NatsSink": lambda: epoch_s(
                    NatsSink(server.url, f"{new_nats_stream(server)}.a"), [NatsRecord(VALUE)] * records
                ),
            },
        )
    with redis_server(str(binaries["redis-server"])) as server, redis.Redis.from_url(server.url, protocol=2) as client:
        fill_redis(client, "tides", records)
        measure(
            report,
            f"{records:,} entries of Redis",
            rounds,
            {
                "XRANGE by 1000, counted": lambda: xrange_s(client, records),
                "a job with RedisSource": lambda: job_s(RedisSource(server.url, "tides", bounded=True), records),
            },
        )
        measure(
            report,
            f"{records:,} entries to Redis",
            rounds,
            {
                "XADD, in one pipeline": lambda: fill_redis(client, f"tides-{next(_STREAMS)}", records),
                "an epoch of RedisSink": lambda: epoch_s(
                    RedisSink(server.url, f"tides-{next(_STREAMS)}"), [RedisRecord({"tide": VALUE})] * records
                ),
            },
        )
    report.finish(options.json)


def measure(report: Report, what: str, rounds: int, contestants: dict[str, Callable[[], float]]) -> None:
    """Report the times of contestants, in turn."""
    for contestant in contestants.values():
        contestant()  # warm
    for name, times in alternate(contestants, rounds).items():
        report.add(f"{what}: {name}", times, "s")


def job_s(source: Any, records: int) -> float:
    """Return the seconds in which a job reads all records."""
    began_s = time.perf_counter()
    flow = tw.Dataflow("tides")
    flow.source("tides", source).map_batches(lambda batch: [len(batch)]).capture("numbers")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=60)
        found = sum(number for captured in job.captured("numbers") for number in captured.batch)
    assert found == records, f"{found} records instead of {records}"
    return time.perf_counter() - began_s


def epoch_s(sink: Any, records: list[Any]) -> float:
    """Return the seconds in which a sink stores an epoch."""
    began_s = time.perf_counter()
    sink.commit(0, [sink.prepare(0, records)])
    return time.perf_counter() - began_s


# ---------------------------------------------------------------------- bare loops


def with_nats(server: StreamServer, act: Callable[[Any], Awaitable[object]]) -> float:
    """Return the seconds in which something is done with JetStream, without the time to connect."""

    async def connected() -> float:
        client = await nats.connect(server.url, allow_reconnect=False)
        try:
            began_s = time.perf_counter()
            await act(client.jetstream(publish_async_max_pending=1000))
            return time.perf_counter() - began_s
        finally:
            await client.close()

    return asyncio.run(connected())


async def fill_nats(stream: str, records: int, jetstream: Any) -> None:
    for _ in range(records):
        await jetstream.publish_async(f"{stream}.a", VALUE, wait_stall=10.0)
    await jetstream.publish_async_completed()


async def push(stream: str, records: int, jetstream: Any) -> None:
    done = asyncio.get_running_loop().create_future()
    found = count(1)

    async def take(_: Any) -> None:
        if next(found) == records:
            done.set_result(None)

    await jetstream.subscribe(f"{stream}.a", stream=stream, ordered_consumer=True, cb=take)
    await asyncio.wait_for(done, 60)


async def fetch(stream: str, records: int, jetstream: Any) -> None:
    config = api.ConsumerConfig(ack_policy=api.AckPolicy.NONE)
    consumer = await jetstream.pull_subscribe(f"{stream}.a", stream=stream, config=config)
    found = 0
    while found < records:
        found += len(await consumer.fetch(min(1000, records - found)))


async def single(stream: str, records: int, jetstream: Any) -> None:
    for number in range(1, records + 1, SINGLE):
        await jetstream.get_msg(stream, number)


def fill_redis(client: Any, stream: str, records: int) -> float:
    began_s = time.perf_counter()
    with client.pipeline(transaction=False) as pipe:
        for _ in range(records):
            pipe.xadd(stream, {"tide": VALUE})
        pipe.execute()
    return time.perf_counter() - began_s


def xrange_s(client: Any, records: int) -> float:
    began_s, found, last = time.perf_counter(), 0, b"-"
    while found < records:
        entries = client.xrange("tides", last, count=1000)
        found, last = found + len(entries), b"(" + entries[-1][0]
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
