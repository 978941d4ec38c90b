"""Faults in what a step reports of what it did."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias
from weakref import WeakKeyDictionary

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.batches.batches import Batch
from tidewheel.progress import Change, Time
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.envelope import Envelope, Message
from tidewheel.runtime.messages.labels import Label
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.tokens.token_ledger import Leak, TokenLedger
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.ports import Channel, RunningOutput
from tidewheel.runtime.worker.worker_core import WorkerCore

_Sent: TypeAlias = list[tuple[int, Envelope]]


def _token_of(output: RunningOutput, time: Time, _: Label | None) -> TimestampToken:
    return TimestampToken(output.ledger, output.domain, output.location, time, output.owner)


def retained_token_lost() -> Injection:
    return replaced(RunningOutput, "new_token", lambda _: _token_of)


@contextmanager
def retained_token_late() -> Iterator[None]:
    late: WeakKeyDictionary[TokenLedger, list[Change]] = WeakKeyDictionary()

    def wrong_token(output: RunningOutput, time: Time, label: Label | None) -> TimestampToken:
        late.setdefault(output.ledger, []).append(((output.location, time), 1))
        return _token_of(output, time, label)

    def make(step: Callable[[WorkerCore], _Sent]) -> Callable[[WorkerCore], _Sent]:
        def wrong_step(core: WorkerCore) -> _Sent:
            sent = step(core)
            for change in late.pop(core.ledger, []):
                core.ledger.record(change)
            return sent

        return wrong_step

    with replaced(RunningOutput, "new_token", lambda _: wrong_token), replaced(WorkerCore, "step", make):
        yield


def downgrade_in_halves() -> Injection:
    def wrong_drain(ledger: TokenLedger) -> Iterable[Change]:
        groups = [ledger._groups.popleft() for _ in range(len(ledger._groups))]
        for group, _ in groups:
            if len(group) > 1:
                ledger.record(*(change for change in group if change[1] > 0))
                yield from (change for change in group if change[1] < 0)
            else:
                yield from group

    return replaced(TokenLedger, "drain", lambda _: wrong_drain)


@contextmanager
def consumed_before_read() -> Iterator[None]:
    """Count a message from a peer as consumed when it comes, though the operator may leave it unread."""
    counted: WeakKeyDictionary[WorkerCore, Counter[tuple[int, Time]]] = WeakKeyDictionary()

    def make_receive(receive: Callable[[WorkerCore, Envelope], None]) -> Callable[[WorkerCore, Envelope], None]:
        def wrong_receive(core: WorkerCore, envelope: Envelope) -> None:
            receive(core, envelope)
            for message in envelope.messages:
                core.consume(message.target, message.time)
                counted.setdefault(core, Counter())[message.target, message.time] += 1

        return wrong_receive

    def make_consume(consume: Callable[..., None]) -> Callable[..., None]:
        def wrong_consume(core: WorkerCore, location: int, time: Time) -> None:
            already = counted.get(core, Counter())
            if already[location, time] > 0:
                already[location, time] -= 1
            else:
                consume(core, location, time)

        return wrong_consume

    with replaced(WorkerCore, "receive", make_receive), replaced(WorkerCore, "consume", make_consume):
        yield


def sent_uncounted() -> Injection:
    return replaced(WorkerCore, "produce", lambda _: lambda core, location, time: None)


def counted_for_the_sender() -> Injection:
    """Count a message for another worker as one for the sender itself, where these are counted apart."""

    def make(deliver: Callable[..., None]) -> Callable[..., None]:
        def wrong(channel: Channel, worker: int, message: Message) -> None:
            own, theirs = channel.locations[channel.host.worker], message.target
            deliver(channel, worker, message)
            channel.host.consume(theirs, message.time)
            channel.host.produce(own, message.time)

        return wrong

    return replaced(Channel, "_deliver", make)


def empty_batch_counted() -> Injection:
    def make(send: Callable[..., None]) -> Callable[..., None]:
        def wrong_send(output: RunningOutput, token: TimestampToken | LentToken, batch: Batch) -> None:
            send(output, token, batch)
            if not batch:
                for channel in output.channels:
                    channel.host.produce(channel.locations[channel.host.worker], token._time_on(output))

        return wrong_send

    return replaced(RunningOutput, "send", make)


def leak_unreported() -> Injection:
    def wrong_record(
        ledger: TokenLedger, stamp: tuple[int, Time], label: Label | None, operator: str, *, has_sent: bool
    ) -> None:
        ledger.record((stamp, -1), label=label)

    return replaced(TokenLedger, "record_drop", lambda _: wrong_record)


def leaked_token_kept() -> Injection:
    def wrong_record(
        ledger: TokenLedger, stamp: tuple[int, Time], label: Label | None, operator: str, *, has_sent: bool
    ) -> None:
        ledger.leaks.append(Leak(operator, stamp[1]))

    return replaced(TokenLedger, "record_drop", lambda _: wrong_record)


def set_downgraded_in_part() -> Injection:
    """Take a set of tokens forward to those times that are allowed, if some are not."""

    def make(downgrade: Callable[[TokenSet, list[Time]], None]) -> Callable[[TokenSet, Iterable[Time]], None]:
        def wrong_downgrade(tokens: TokenSet, frontier: Iterable[Time]) -> None:
            times = list(frontier)
            try:
                downgrade(tokens, times)
            except TokenError:
                downgrade(tokens, times[:1])
                raise

        return wrong_downgrade

    return replaced(TokenSet, "downgrade", make)
