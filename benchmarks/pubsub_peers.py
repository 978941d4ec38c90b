"""Publishers and subscribers of `pubsub.py`, in processes of their own.

``python pubsub_peers.py publish NAME ADDRESS SUBSCRIBERS`` reads orders, a line each, sends what they say, and answers
when it has. ``python pubsub_peers.py subscribe NAME ADDRESS FIRST COUNT`` is ``COUNT`` subscribers from number
``FIRST`` on; it answers each line with what each of them has had of one more turn. Both say that they are ready by an
empty line, and end when there are no more lines, or where a turn takes too long. tidewheel publishes from a job, and so
has only subscribers here.
"""

import asyncio
import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from itertools import islice
from queue import SimpleQueue
from typing import Any

import msgspec

from pubsub_traffic import Order, Receipt, Receiver, Turn, decode, encode, prepare

DEADLINE_S = 60
TOPIC = "pubsub"
FIELD = b"batch"
AT_ONCE = 32
"""How many messages a client of Redis has in a pipeline, and takes from a stream, at a time."""
READ_SIZE = 512 * 1024
_STOPS_WITHIN_S = 5.0


def main() -> None:
    role, name, address, *numbers = sys.argv[1:]
    end_if_late()
    if role == "publish":
        publish(PUBLISHERS[name](address, int(numbers[0])))
    else:
        subscribe(SUBSCRIBERS[name], address, range(int(numbers[0]), sum(map(int, numbers))))


def end_if_late() -> None:
    """End this process, and say where it was, unless it is done in time."""
    faulthandler.dump_traceback_later(DEADLINE_S, exit=True)


def lines() -> Iterator[str]:
    """Say that this process is ready, and read lines; what it does with one has its time."""
    print(flush=True)
    faulthandler.cancel_dump_traceback_later()
    for line in sys.stdin:
        end_if_late()
        yield line
        faulthandler.cancel_dump_traceback_later()
    end_if_late()


def publish(publisher: AbstractContextManager[Callable[[Order], None]]) -> None:
    prepare()
    with publisher as send:
        for line in lines():
            send(msgspec.json.decode(line, type=Order))
            print("sent", flush=True)


def subscribe(subscriber: Callable[..., Any], address: str, numbers: range) -> None:
    """Have all subscribers run; answer lines by what they have had."""
    receipts: SimpleQueue[Receipt | BaseException] = SimpleQueue()
    with ExitStack() as running:
        for number in numbers:
            running.enter_context(subscriber(address, number, receipts.put))
        for _ in lines():
            found = [receipts.get() for _ in numbers]
            for receipt in found:
                if isinstance(receipt, BaseException):
                    raise receipt
            print(msgspec.json.encode(found).decode(), flush=True)


Tell = Callable[[Receipt | BaseException], object]


@contextmanager
def reading(batches: Iterator[Any], tell: Tell, stop: Callable[[], object] | None = None) -> Iterator[None]:
    """Receive batches in a thread, until ``stop`` is called at the end of the block, or else the process ends."""

    def read() -> None:
        receiver = Receiver(tell)
        try:
            for batch in batches:
                receiver.take(batch)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the main thread says so
            tell(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        if stop is not None:
            stop()
            thread.join(_STOPS_WITHIN_S)


# ---------------------------------------------------------------------- tidewheel


def tidewheel_subscriber(address: str, number: int, tell: Tell) -> AbstractContextManager[None]:
    """A subscription, in a driver of its own."""
    import tidewheel as tw

    os.environ["RAY_ADDRESS"] = address
    subscription = tw.subscribe(TOPIC, timeout=DEADLINE_S, slow="block")
    batches = (event.data for event in subscription if isinstance(event, tw.Batch))
    return reading(batches, tell, subscription.close)


# ---------------------------------------------------------------------- Redis


def redis_client(path: str) -> Any:
    """A client that parses by hiredis, if it is installed, over a Unix socket, without a limit on waiting.

    With the newer protocol 3, redis-py makes a text of every message for its log, which takes most of the time.
    """
    import redis

    return redis.Redis(unix_socket_path=path, protocol=2, socket_timeout=None, socket_read_size=READ_SIZE)


@contextmanager
def redis_publisher(path: str, trim: bool, command: Callable[[Any, Any], object]) -> Iterator[Callable[[Order], None]]:
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
                while some := list(islice(batches, AT_ONCE)):
                    for batch in some:
                        command(pipeline, encode(batch))
                    pipeline.execute()

        yield send


def channel_publisher(path: str, _: int) -> AbstractContextManager[Callable[[Order], None]]:
    """To a channel of Redis pub/sub."""
    return redis_publisher(path, False, lambda client, payload: client.publish(TOPIC, memoryview(payload)))


def stream_publisher(path: str, _: int) -> AbstractContextManager[Callable[[Order], None]]:
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
def nats_publisher(address: str, _: int) -> Iterator[Callable[[Order], None]]:
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
def socket_publisher(folder: str, subscribers: int) -> Iterator[Callable[[Order], None]]:
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


PUBLISHERS: dict[str, Callable[[str, int], AbstractContextManager[Callable[[Order], None]]]] = {
    "redis": channel_publisher,
    "streams": stream_publisher,
    "nats": nats_publisher,
    "zeromq": socket_publisher,
}
SUBSCRIBERS: dict[str, Callable[[str, int, Tell], AbstractContextManager[None]]] = {
    "tidewheel": tidewheel_subscriber,
    "redis": channel_subscriber,
    "streams": stream_subscriber,
    "nats": nats_subscriber,
    "zeromq": socket_subscriber,
}


if __name__ == "__main__":
    main()
