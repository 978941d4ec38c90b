"""Publishers and subscribers of `topics/exactly_once.py`, in processes of their own.

`contestants/peer_roles.py` says what each of them is asked. tidewheel publishes from a job, and so has only subscribers
here. A file has only a publisher: it notes itself what it has written, once that is on the disk.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tidewheel as tw
from benchmarks.contestants.peer_roles import Publisher, Send, Subscriber, Tell, play, reading
from benchmarks.contestants.pubsub_peers import (
    AT_ONCE,
    FIELD,
    TOPIC,
    redis_client,
    run,
    stream_publisher,
    topic_reading,
)
from benchmarks.measuring.pubsub_traffic import Order, Receipt, Receiver, Turn, decode, encode
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES

BEST_EFFORT, EXACTLY_ONCE, IN_MEMORY = "best effort", "exactly once", "log in memory"
HISTORY, RELAYED = "history", "relayed"
"""The topics; of all but the first, what is told has been in a log before: of the third, in a file system in memory."""
A_GROUP_BYTES = 1 << 20
_UNACKNOWLEDGED = 256
"""A client of JetStream sends so many messages before the first is stored."""


def subscription_name(number: int) -> str:
    """Return the name under which a subscriber has its place remembered."""
    return f"billing-{number}"


# ---------------------------------------------------------------------- tidewheel


def best_effort_subscriber(address: str, number: int, tell: Tell) -> AbstractContextManager[None]:
    """Of a topic that keeps nothing; it holds back its publisher rather than lose anything."""
    return topic_reading(BEST_EFFORT, address, tell, slow="block")


def durable_subscriber(topic: str) -> Subscriber:
    """Of a topic with exactly-once delivery, where each subscriber has a name and acknowledges what it is done with."""

    def subscriber(address: str, number: int, tell: Tell) -> AbstractContextManager[None]:
        return topic_reading(topic, address, tell, durable=tw.Durable(subscription_name(number)))

    return subscriber


# ---------------------------------------------------------------------- Redis


def group_subscriber(path: str, number: int, tell: Tell) -> AbstractContextManager[None]:
    """Of a stream of Redis, as a consumer group of its own."""
    from redis.exceptions import ResponseError

    client = redis_client(path)
    with suppress(ResponseError):  # it is there from an earlier turn
        client.xgroup_create(TOPIC, subscription_name(number), mkstream=True)
    return reading(group_batches(client, subscription_name(number)), tell)


def group_batches(client: Any, group: str) -> Iterator[Any]:
    """Read what the group has not had, and acknowledge it."""
    while True:
        for _, entries in client.xreadgroup(group, "reader", {TOPIC: ">"}, count=AT_ONCE, block=0):
            for _, fields in entries:
                yield decode(fields[FIELD])
            client.xack(TOPIC, group, *(number for number, _ in entries))


# ---------------------------------------------------------------------- NATS JetStream


async def jetstream(address: str) -> tuple[Any, Any]:
    """Return a client, and its view of the stream, which is made if there is none."""
    import nats

    client = await nats.connect(address)
    stream = client.jetstream(publish_async_max_pending=_UNACKNOWLEDGED)
    await stream.add_stream(name=TOPIC, subjects=[TOPIC], storage="file")
    return client, stream


@contextmanager
def jetstream_publisher(address: str, _: int) -> Iterator[Send]:
    """To a stream in files."""
    client, stream = run(jetstream(address))

    async def send(order: Order) -> None:
        await stream.purge_stream(TOPIC)  # what is there has been read
        batches = Turn(order).paced()
        if order.rate:
            for batch in batches:  # it sleeps there, which is more exact than the loop is
                await stream.publish(TOPIC, encode(batch))
        else:
            await asyncio.gather(*[await stream.publish_async(TOPIC, encode(batch)) for batch in batches])

    try:
        yield lambda order: run(send(order))
    finally:
        run(client.close())


@contextmanager
def jetstream_subscriber(address: str, number: int, tell: Tell) -> Iterator[None]:
    """Of a stream, with a name, as which it acknowledges every message."""
    from nats.js.api import ConsumerConfig, DeliverPolicy

    client, stream = run(jetstream(address))
    receiver = Receiver(tell)

    async def take(message: Any) -> None:
        receiver.take(decode(message.data))
        await message.ack()

    name, only_new = subscription_name(number), ConsumerConfig(deliver_policy=DeliverPolicy.NEW)
    limits = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
    run(stream.subscribe(TOPIC, durable=name, cb=take, manual_ack=True, config=only_new, **limits))
    try:
        yield
    finally:
        run(client.close())


# ---------------------------------------------------------------------- the floor


def file_publisher(group_bytes: int) -> Publisher:
    """To files, with an fdatasync whenever so many bytes have come together, and at the end of a turn."""

    @contextmanager
    def publisher(folder: str, _: int) -> Iterator[Send]:
        with TemporaryDirectory(dir=folder) as own, closing(Segments(Path(own))) as segments:
            yield lambda order: write(segments, order, group_bytes)

    return publisher


class Segments:
    """Two files that are written over in turn, as a log's are: it takes longer to write where nothing was.

    Args:
        folder: of them alone.
    """

    def __init__(self, folder: Path) -> None:
        self._file, self._other = (FileIO(folder / name, "xb") for name in "ab")

    def append(self, payload: Any) -> int:
        """Write to a file, or to the other one if it is full; return how many bytes."""
        if self._file.tell() >= SEGMENT_BYTES:
            self.sync()
            self._file, self._other = self._other, self._file
            self._file.seek(0)
        return self._file.write(payload)

    def sync(self) -> None:
        """Return once all is on the disk."""
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Let go of them."""
        for file in (self._file, self._other):
            file.close()


def write(segments: Segments, order: Order, group_bytes: int) -> Receipt:
    """Write a turn; a batch has arrived once it is on the disk. All are written as the first is encoded."""
    receipts: list[Receipt] = []
    receiver = Receiver(receipts.append)
    written: list[Any] = []
    waiting_bytes = 0
    encoded: Any = None
    turn = Turn(order)
    for batch in turn.paced():
        encoded = encode(batch) if encoded is None else encoded
        written.append(batch)
        waiting_bytes += segments.append(encoded)
        if waiting_bytes >= group_bytes or turn.is_over:
            segments.sync()
            for one in written:
                receiver.take(one)
            written.clear()
            waiting_bytes = 0
    return receipts[0]


PUBLISHERS: Mapping[str, Publisher] = {
    "redis": stream_publisher,
    "jetstream": jetstream_publisher,
    "file": file_publisher(0),
    "file in groups": file_publisher(A_GROUP_BYTES),
}
SUBSCRIBERS: Mapping[str, Subscriber] = {
    BEST_EFFORT: best_effort_subscriber,
    **{topic: durable_subscriber(topic) for topic in (EXACTLY_ONCE, IN_MEMORY, HISTORY, RELAYED)},
    "redis": group_subscriber,
    "jetstream": jetstream_subscriber,
}


if __name__ == "__main__":
    play(PUBLISHERS, SUBSCRIBERS)
