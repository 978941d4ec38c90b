"""The faults seeded into the runtime, each of which must be caught: how we know that the checks check."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key, SubstreamTracker
from tidewheel.runtime.messages.envelope import Envelope, Message
from tidewheel.runtime.messages.labels import Label, Labels
from tidewheel.runtime.messages.news import Changes, SubstreamNews
from tidewheel.runtime.substreams.books import SubstreamBooks
from tidewheel.runtime.substreams.common_view import CommonView
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.firm_mailbox import FirmMailbox, WaitingEnds
from tidewheel.runtime.worker.ports import RunningOutput
from tidewheel.runtime.worker.substream_ports import SubstreamInput
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.runtime.worker.worker_substreams import WorkerSubstreams


def split_batch() -> Injection:
    """What has come to be is told a time later than what is no more."""

    def make(changes: Callable[[SubstreamBooks], SubstreamNews | None]) -> Any:
        late: WeakKeyDictionary[SubstreamBooks, list[Any]] = WeakKeyDictionary()

        def split(self: SubstreamBooks) -> SubstreamNews | None:
            news = changes(self)
            now = late.pop(self, [])
            if news is not None:
                now += [_those(told, is_more=False) for told in news.changes]
                late[self] = [_those(told, is_more=True) for told in news.changes]
            now = [told for told in now if told.keys]
            return SubstreamNews(now, [] if news is None else news.finished) if now or news is not None else None

        return split

    return replaced(SubstreamBooks, "_changes", make)


def _those(told: Changes, *, is_more: bool) -> Changes:
    """Return of what is told that which has come to be, or that which is no more."""
    shapes = [tuple((at, n) for at, n in shape if (n > 0) == is_more) for shape in told.shapes]
    some = [(key, at) for key, at in zip(told.keys, told.which, strict=True) if shapes[at]]
    return Changes(told.declaration, [key for key, _ in some], [at for _, at in some], shapes)


def retained_uncounted() -> Injection:
    """A token that is retained is not counted for its substream."""

    def make(new_token: Any) -> Any:
        def uncounted(output: RunningOutput, time: Time, label: Label | None) -> TimestampToken:
            token = TimestampToken(output.ledger, output.domain, output.location, time, output.owner, label)
            output.ledger.record((token._stamp, 1))
            return token

        return uncounted

    return replaced(RunningOutput, "new_token", make)


def gate_reopens_early() -> Injection:
    """A key is used again while something is left of what had it before."""

    def make(may_open: Any) -> Any:
        def early(gate: SubstreamGate, key: Key, time: Time, what: str) -> Any:
            if key in gate._closed:
                gate._closed[key].is_over = True
            return may_open(gate, key, time, what)

        return early

    return replaced(SubstreamGate, "_may_open", make)


def heard_ignored() -> Injection:
    """What was sent after hearing of an end is taken in before that end."""

    def make(holds_back: Any) -> Any:
        def ignoring(substreams: WorkerSubstreams, envelope: Envelope) -> bool:
            return False

        return ignoring

    return replaced(WorkerSubstreams, "holds_back", make)


@contextmanager
def consumed_on_arrival() -> Iterator[None]:
    """A message is counted as consumed when it arrives, so that an end is told while it waits at the port."""
    before: WeakKeyDictionary[SubstreamBooks, Counter[Any]] = WeakKeyDictionary()

    def make_apply(apply: Any) -> Any:
        def counting(core: WorkerCore, envelope: Envelope) -> None:
            apply(core, envelope)
            for message in envelope.messages:
                if message.label is not None:
                    core.books.record(message.label, message.target, message.time, -1)
                    before.setdefault(core.books, Counter())[message.label, message.target, message.time] += 1

        return counting

    def make_consume(consume: Any) -> Any:
        def once(books: SubstreamBooks, label: Labels, location: int, time: Time) -> None:
            counted = before.setdefault(books, Counter())
            if counted[label, location, time]:
                counted[label, location, time] -= 1
            else:
                consume(books, label, location, time)

        return once

    with replaced(WorkerCore, "_apply", make_apply), replaced(SubstreamBooks, "consume", make_consume):
        yield


def finished_by_the_first() -> Injection:
    """All keys are closed for everyone once the first worker has finished."""

    def make(take: Any) -> Any:
        def hasty(view: Any, news: SubstreamNews) -> None:
            for declaration in news.finished:
                if view._finished[declaration] == 0:
                    view._finished[declaration] = view._workers - 1
            take(view, news)

        return hasty

    return replaced(CommonView, "take", make)


def closed_twice() -> Injection:
    """What a worker other than worker 0 closes counts as closed by two."""

    def make(close: Any) -> Any:
        def twice(books: SubstreamBooks, declaration: int, keys: Any) -> None:
            close(books, declaration, keys)
            if declaration in books._books and books.view is None:
                books._books[declaration].close(keys)

        return twice

    return replaced(SubstreamBooks, "close", make)


def reused_not_held() -> Injection:
    """Records of a key that is used again are received before the end of what had it before was looked at."""

    def make(iterate: Any) -> Any:
        def eager(port: SubstreamInput) -> Iterator[Any]:
            ends, port.ends = port.ends, None
            received = iterate(port)
            first = next(received, None)
            port.ends = ends
            if first is not None:
                yield first
                yield from received

        return eager

    return replaced(SubstreamInput, "__iter__", make)


def over_before_told() -> Injection:
    """A key is over while its end waits for its turn."""

    def make(update: Any) -> Any:
        def hasty(tracker: SubstreamTracker, keys: Any, which: Any, shapes: Any) -> Any:
            lives = set(tracker._lives)
            ended = update(tracker, keys, which, shapes)
            gone = {key for key in lives if key not in tracker._lives}
            tracker._over += [key for key in gone if key not in tracker._over]
            return ended

        return hasty

    return replaced(SubstreamTracker, "update", make)


def ends_reversed() -> Injection:
    """Ends that are known together are told in the reverse of their order."""

    def make(end: Any) -> Any:
        def backwards(view: Any, declaration: int, ends: Any) -> None:
            end(view, declaration, {location: keys[::-1] for location, keys in ends.items()})

        return backwards

    return replaced(CommonView, "_end", make)


def told_once() -> Injection:
    """An end that waits stands for others of its key."""

    def make(add: Any) -> Any:
        def once(ends: Any, keys: Any) -> None:
            add(ends, [key for key in dict.fromkeys(keys) if key not in ends])

        return once

    return replaced(WaitingEnds, "add", make)


def never_asked() -> Injection:
    """Workers are not told which substreams are about to end, so that they do not tell of them."""

    def make(hear: Any) -> Any:
        def deaf(books: SubstreamBooks, news: SubstreamNews) -> None:
            hear(books, SubstreamNews(ends=news.ends, over=news.over, all_over=news.all_over))

        return deaf

    return replaced(SubstreamBooks, "_hear", make)


def closed_let_in() -> Injection:
    """A record of a substream that has ended is let in."""

    def make(admit: Any) -> Any:
        def lenient(gate: SubstreamGate, key: Key, time: Time) -> Any:
            closed = gate._closed.get(key)
            if closed is not None and closed.is_over and key not in gate._open:
                return gate.number, key
            return admit(gate, key, time)

        return lenient

    return replaced(SubstreamGate, "admit", make)


def firm_let_through() -> Injection:
    """An input with a firm bound receives what comes at once."""

    def make(put_one: Any) -> Any:
        def at_once(mailbox: FirmMailbox, key: Key, message: Message) -> None:
            mailbox._port.queue.append(message)

        return at_once

    return replaced(FirmMailbox, "_put_one", make)


def held_uncounted() -> Injection:
    """What an input with a firm bound holds is not counted for those behind it."""

    def make(count: Any) -> Any:
        def uncounted(mailbox: FirmMailbox, label: Labels, time: Time, difference: int) -> None:
            pass

        return uncounted

    return replaced(FirmMailbox, "_count", make)


def end_before_piece() -> Injection:
    """An end stands before what has come of its substream."""

    def make(end: Any) -> Any:
        def before(mailbox: FirmMailbox, keys: Any) -> None:
            held = {key: mailbox._held.pop(key, []) for key in keys}
            end(mailbox, keys)
            for entries in held.values():
                mailbox._port.queue.extend(entries)

        return before

    return replaced(FirmMailbox, "end", make)
