"""A process that is a publisher, or several subscribers, and takes turns with others.

``python -m SCRIPT publish NAME ADDRESS SUBSCRIBERS`` reads one order a line, sends the messages of the order, and then
answers. ``python -m SCRIPT subscribe NAME ADDRESS FIRST COUNT`` is ``COUNT`` subscribers, numbered from ``FIRST``. It
answers each line with the messages that each subscriber has received in one more turn. Both write an empty line when
they are ready. They end when their input ends, or when a turn takes too long.
"""

import faulthandler
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any, TypeAlias

import msgspec

from benchmarks.measuring.pubsub_traffic import Order, Receipt, Receiver, prepare

DEADLINE_S = 60
_STOPS_WITHIN_S = 5.0

Tell: TypeAlias = Callable[[Receipt | BaseException], object]
Send: TypeAlias = Callable[[Order], Receipt | None]
"""Sends what an order says; returns what became of it, if nobody else can tell."""
Publisher: TypeAlias = Callable[[str, int], AbstractContextManager[Send]]
"""Connects to an address, for so many subscribers."""
Subscriber: TypeAlias = Callable[[str, int, Tell], AbstractContextManager[None]]
"""Connects to an address, as the subscriber with a number, who tells what it has had of each turn."""


def play(publishers: Mapping[str, Publisher], subscribers: Mapping[str, Subscriber]) -> None:
    """Be what the arguments of this program say."""
    role, name, address, *numbers = sys.argv[1:]
    end_if_late()
    if role == "publish":
        publish(publishers[name](address, int(numbers[0])))
    else:
        subscribe(subscribers[name], address, range(int(numbers[0]), sum(map(int, numbers))))


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


def publish(publisher: AbstractContextManager[Send]) -> None:
    """Send what each line orders."""
    prepare()
    with publisher as send:
        for line in lines():
            receipt = send(msgspec.json.decode(line, type=Order))
            answer([] if receipt is None else [receipt])


def subscribe(subscriber: Subscriber, address: str, numbers: range) -> None:
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
            answer(found)


def answer(receipts: list[Any]) -> None:
    """Answer a line."""
    print(msgspec.json.encode(receipts).decode(), flush=True)


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
