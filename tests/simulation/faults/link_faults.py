"""Faults on the way from worker to worker."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from tests.kit.simulation.injection import Injection, replaced
from tests.simulation.network import Network
from tidewheel.progress import Accumulated, Broadcast, ProgressBatch, Spread
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.worker.worker_core import WorkerCore

_Sent: TypeAlias = list[tuple[int, Envelope]]


@contextmanager
def _rewritten(rewrite: Callable[[Envelope], list[Envelope]]) -> Iterator[None]:
    """Replace each envelope that a step returns by others, and number all of them anew."""
    numbers: WeakKeyDictionary[WorkerCore, Counter[int]] = WeakKeyDictionary()

    def make(step: Callable[[WorkerCore], _Sent]) -> Callable[[WorkerCore], _Sent]:
        def wrong_step(core: WorkerCore) -> _Sent:
            sent: _Sent = []
            next_number = numbers.setdefault(core, Counter())
            for peer, envelope in step(core):
                for changed in rewrite(envelope):
                    sent.append((peer, msgspec.structs.replace(changed, sequence=next_number[peer])))
                    next_number[peer] += 1
            return sent

        return wrong_step

    with replaced(WorkerCore, "step", make):
        yield


def split_batch() -> Injection:
    def rewrite(envelope: Envelope) -> list[Envelope]:
        taken_away = [change for change in envelope.progress if change[1] < 0]
        added = [change for change in envelope.progress if change[1] > 0]
        if not (taken_away and added):
            return [envelope]
        return [
            msgspec.structs.replace(envelope, progress=taken_away),
            msgspec.structs.replace(envelope, messages=[], progress=added),
        ]

    return _rewritten(rewrite)


def reordered_channel() -> Injection:
    def make(post: Callable[..., None]) -> Callable[..., None]:
        def wrong_post(network: Network, sender: int, receiver: int, envelope: Envelope) -> None:
            last = network._in_order.get((sender, receiver))
            if not last or not last[-1].progress or not envelope.progress:
                post(network, sender, receiver, envelope)
                return
            earlier = last.pop()
            post(network, sender, receiver, msgspec.structs.replace(envelope, sequence=earlier.sequence))
            post(network, sender, receiver, msgspec.structs.replace(earlier, sequence=envelope.sequence))

        return wrong_post

    return replaced(Network, "post", make)


def applied_twice() -> Injection:
    def make(receive: Callable[..., set[int]]) -> Callable[..., set[int]]:
        def wrong_receive(spread: Spread, sender: int, batch: ProgressBatch) -> set[int]:
            return receive(spread, sender, batch) | receive(spread, sender, batch)

        return wrong_receive

    @contextmanager
    def both() -> Iterator[None]:
        with ExitStack() as stack:
            for spread in (Broadcast, Accumulated):
                stack.enter_context(replaced(spread, "receive", make))
            yield

    return both()
