"""Publishers and subscribers of `topics/pubsub.py`, in processes of their own.

`contestants/peer_roles.py` says what each of them is asked. tidewheel publishes from a job, and so has only subscribers
here.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from itertools import islice
from typing import Any

from benchmarks.contestants.peer_roles import DEADLINE_S, Publisher, Send, Subscriber, Tell, play, reading
from benchmarks.measuring.pubsub_traffic import Order, Receiver, Turn, decode, encode

TOPIC = "pubsub"
FIELD = b"batch"
AT_ONCE = 32
"""The number of messages that a client of Redis puts into a pipeline, or takes from a stream, at a time. Messages with
a size fill a pipeline up to one MiB."""
_MIB = 1 << 20
READ_SIZE = 512 * 1024


# ---------------------------------------------------------------------- tidewheel


def tidewheel_subscriber(address: str, number: int, tell: Tell) -> AbstractContextManager[None]:
    """A subscription, in a driver of its own."""
    return topic_reading(TOPIC, address, tell, slow="block")


def topic_reading(topic: str, address: str, tell: Tell, **options: Any) -> AbstractContextManager[None]:
    """A subscription to a topic of the cluster at an address, with options."""
    import tidewheel as tw

    os.environ["RAY_ADDRESS"] = address
    subscription = tw.subscribe(topic, timeout_s=DEADLINE_S, **options)
    batches = (event.data for event in subscription if isinstance(event, tw.types.Batch))
    return reading(batches, tell, subscription.close)


# ---------------------------------------------------------------------- Redis


def redis_client(path: str) -> Any:
    """A client that parses by hiredis, if it is installed, over a Unix socket, without a limit on waiting.

    With the newer protocol 3, redis-py makes a text of every message for its log, which takes most of the time.
    """
    import redis

    return redis.Redis(unix_socket_path=path, protocol=2, socket_timeout=None, socket_read_size=READ_SIZE)


def at_once(order: Order) -> int:
    """Return how many messages are in a pipeline."""
    return max(AT_ONCE, _MIB // order.size) if order.size else AT_ONCE


@contextmanager
def redis_publisher(path: str, trim: bool, command: Callable[[Any, Any], object]) -> Iterator[Send]:
    """Send by a command for each batch, several in a pipeline where it goes as fast as it can."""
    with redis_client(path) as client:

        def send(order: Order) -> None:
            if trim:
                client.xtrim(TOPIC, maxlen=0, approximate=False)  # what is there has been read
            batches = Turn(order).paced()
            if order.rate:
                for batch in batches:
                    command(client, encode(batch))
                return
            with client.pipeline(transaction=False) as pipeline:
                while some := list(islice(batches, at_once(order))):
                    for batch in some:
                        command(pipeline, encode(batch))
                    pipeline.execute()

        yield send


def channel_publisher(path: str, _: int) -> AbstractContextManager[Send]:
    """To a channel of Redis pub/sub."""
    return redis_publisher(path, False, lambda client, payload: client.publish(TOPIC, memoryview(payload)))


def stream_publisher(path: str, _: int) -> AbstractContextManager[Send]:
    """To a stream of Redis."""
    return redis_publisher(path, True, lambda client, payload: client.xadd(TOPIC, {FIELD: memoryview(payload)}))


def channel_subscriber(path: str, number: int, tell: Tell) -> AbstractContextManager[None]:
    """Of a channel of Redis pub/sub."""
    channel = redis_client(path).pubsub(ignore_subscribe_messages=True)
    channel.subscribe(TOPIC)
    channel.parse_response()
    return reading((decode(message["data"]) for message in channel.listen()), tell)


def stream_subscriber(path: str, number: int, tell: Tell) -> AbstractContextManager[None]:
    """Of a stream of Redis."""
    client = redis_client(path)
    before = client.xrevrange(TOPIC, count=1)
    return reading(stream_batches(client, before[0][0] if before else b"0-0"), tell)


def stream_batches(client: Any, last: bytes) -> Iterator[Any]:
    """Read what comes after an entry."""
    while True:
        for _, entries in client.xread({TOPIC: last}, count=AT_ONCE, block=0):
            for _, fields in entries:
                yield decode(fields[FIELD])
            last = entries[-1][0]


# ---------------------------------------------------------------------- NATS


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process, which runs in a thread until the process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the loop, and wait for it."""
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result(DEADLINE_S)


@contextmanager
def nats_publisher(address: str, _: int) -> Iterator[Send]:
    """To a subject of NATS."""
    import nats

    client = run(nats.connect(address))

    async def send(order: Order) -> None:
        for batch in Turn(order).paced():  # it sleeps there, which is more exact than the loop is
            await client.publish(TOPIC, encode(batch))
            if order.rate:
                await asyncio.sleep(0)  # what was published is sent here
        await client.flush(DEADLINE_S)

    try:
        yield lambda order: run(send(order))
    finally:
        run(client.close())


@contextmanager
def nats_subscriber(address: str, number: int, tell: Tell) -> Iterator[None]:
    """Of a subject of NATS."""
    import nats

    client = run(nats.connect(address))
    receiver = Receiver(tell)

    async def take(message: Any) -> None:
        receiver.take(decode(message.data))

    run(client.subscribe(TOPIC, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1))
    run(client.flush(DEADLINE_S))
    try:
        yield
    finally:
        run(client.close())


# ---------------------------------------------------------------------- the floor


@contextmanager
def socket_publisher(folder: str, subscribers: int) -> Iterator[Send]:
    """To each subscriber, over a ZeroMQ socket of its own."""
    import zmq

    with zmq.Context() as context, ExitStack() as opened:
        sockets = [opened.enter_context(context.socket(zmq.PUSH)) for _ in range(subscribers)]
        for number, socket in enumerate(sockets):
            socket.set(zmq.SNDHWM, 0)
            socket.set(zmq.LINGER, 0)
            socket.connect(f"ipc://{folder}/{number}")

        def send(order: Order) -> None:
            for batch in Turn(order).paced():
                payload = encode(batch)
                for socket in sockets:
                    socket.send(payload, copy=False)

        yield send


@contextmanager
def socket_subscriber(folder: str, number: int, tell: Tell) -> Iterator[None]:
    """Of a ZeroMQ socket."""
    import zmq

    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
    with socket:
        socket.set(zmq.RCVHWM, 0)
        socket.set(zmq.LINGER, 0)
        socket.bind(f"ipc://{folder}/{number}")
        ended = threading.Event()

        def batches() -> Iterator[Any]:
            while not ended.is_set():
                if socket.poll(200):
                    yield decode(socket.recv(copy=False).buffer)

        with reading(batches(), tell, ended.set):
            yield


PUBLISHERS: Mapping[str, Publisher] = {
    "redis": channel_publisher,
    "streams": stream_publisher,
    "nats": nats_publisher,
    "zeromq": socket_publisher,
}
SUBSCRIBERS: Mapping[str, Subscriber] = {
    "tidewheel": tidewheel_subscriber,
    "redis": channel_subscriber,
    "streams": stream_subscriber,
    "nats": nats_subscriber,
    "zeromq": socket_subscriber,
}


if __name__ == "__main__":
    play(PUBLISHERS, SUBSCRIBERS)
