"""The faults seeded into snapshots, each of which must be caught: how we know that the checks check."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tests.simulation.snapshots.driver import Driver
from tests.simulation.snapshots.feeders import Feeder
from tidewheel.runtime.description.pacts import BroadcastPact
from tidewheel.runtime.inputs.feeders import Feeders
from tidewheel.runtime.messages.envelope import Envelope, InputCommand
from tidewheel.runtime.state import operator_state, worker_part
from tidewheel.runtime.state.cut import Cut
from tidewheel.runtime.state.keyed_state import KeyedCut, KeyedState
from tidewheel.runtime.state.operator_state import OperatorCut, OperatorState
from tidewheel.runtime.state.saved_worker import _Share
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker import worker_memory
from tidewheel.runtime.worker.mailbox import Mailbox
from tidewheel.runtime.worker.outbox import Outbox
from tidewheel.runtime.worker.ports import RunningOutput
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.runtime.worker.worker_memory import WorkerMemory

Method = Callable[..., Any]


def late_envelope_missed() -> Injection:
    return replaced(WorkerMemory, "_add_late", lambda _: lambda *_: None)


def message_recorded_twice() -> Injection:
    def make(add_late: Method) -> Method:
        def wrong(memory: WorkerMemory, part: worker_part.WorkerPart, envelope: Envelope) -> None:
            add_late(memory, part, envelope)
            for message in envelope.messages[-1:]:
                at = memory._compiled.locations[message.target]
                unread = part.operators[memory._instances[at.operator].name].unread[at.port]
                unread.append(unread[-1])

        return wrong

    return replaced(WorkerMemory, "_add_late", make)


def applied_and_recorded() -> Injection:
    def wrong(cut: Cut, number: int) -> bool:
        return number <= cut.number and cut.settled < 0

    return replaced(Cut, "is_late", lambda _: wrong)


def recorded_until_any_marker() -> Injection:
    """What is late is recorded only until the first member has said that it is in the new snapshot."""

    def wrong(cut: Cut, member: int, number: int) -> bool:
        is_last = number >= cut.number and member in cut._awaited
        if is_last:
            cut._awaited.clear()
        return is_last

    return replaced(Cut, "arrived", lambda _: wrong)


def taken_after_the_first_envelope() -> Injection:
    def wrong(core: WorkerCore, envelope: Envelope) -> None:
        if core._substreams.holds_back(envelope):
            return
        core._apply(envelope)
        core.memory.arrives(envelope)
        for early in core._substreams.hear(envelope.substreams) if envelope.substreams is not None else ():
            core._take_in(early)

    return replaced(WorkerCore, "_take_in", lambda _: wrong)


def marker_not_sent() -> Injection:
    """Where a worker has nothing else to tell a peer, it does not tell it of the snapshot."""

    def make(envelopes: Method) -> Method:
        return lambda outbox, *others: envelopes(outbox, *others[:-1], None)

    return replaced(Outbox, "envelopes", make)


def token_lost() -> Injection:
    """Of the times for which a notificator waits, one is not saved."""

    def make(cut: Method) -> Method:
        def wrong(state: OperatorState) -> OperatorCut:
            made: OperatorCut = cut(state)
            for number, notificator in enumerate(state.notificators):
                made.times[number] = state._pickled(OperatorCut(), "times", notificator.tokens[1:])
            return made

        return wrong

    return replaced(OperatorState, "cut", make)


def token_twice() -> Injection:
    def make(token_again: Method) -> Method:
        def wrong(output: RunningOutput, *place: Any, **is_live: Any) -> TimestampToken:
            token_again(output, *place, **is_live)
            made: TimestampToken = token_again(output, *place, **is_live)
            return made

        return wrong

    return replaced(RunningOutput, "token_again", make)


def old_tokens_stay() -> Injection:
    """The tokens in values that have been replaced since are not discarded."""
    return replaced(OperatorState, "_discard_others", lambda _: staticmethod(lambda *_: None))


def change_not_noted() -> Injection:
    """What was set since the last cut is not written, unless all is."""
    return replaced(KeyedState, "_cut_some", lambda cut: lambda state, _, changeable: cut(state, {}, changeable))


def gone_key_comes_back() -> Injection:
    return _cuts(lambda cut: cut._replace(gone=[]))


def sweep_ends_early() -> Injection:
    """The second part of a sweep counts as its last, so files are let go that are still needed."""
    return _cuts(lambda cut: cut if cut.begins else cut._replace(ends=True))


def _cuts(change: Callable[[KeyedCut], KeyedCut]) -> Injection:
    return replaced(KeyedState, "cut", lambda cut: lambda state: change(cut(state)))


def old_value_wins() -> Injection:
    def make(entries_of: Method) -> Method:
        return lambda changes, load: entries_of(list(reversed(changes)), load)

    return replaced(operator_state, "entries_of", make)


def given_up_changes_lost() -> Injection:
    """What writes parts may notice it: a sweep ends that it has not seen begin."""
    return replaced(WorkerMemory, "write_all_next", lambda _: lambda _: None)


def positions_before_the_marker() -> Injection:
    def make(begin_snapshot: Method) -> Method:
        def wrong(driver: Driver, number: int) -> None:
            positions = driver._positions()
            driver.act()
            with replaced(driver, "_positions", lambda _: lambda: positions):
                begin_snapshot(driver, number)

        return wrong

    return replaced(Driver, "begin_snapshot", make)


def left_feeder_waited_for() -> Injection:
    """A feeder that has left is still waited for, where worker 0 has not heard of that when it begins a snapshot."""
    return replaced(Cut, "gone", lambda _: lambda cut, feeder, _: cut.arrived(feeder, cut.number))


def joins_unheard() -> Injection:
    """A feeder that joins in a snapshot that worker 0 has not begun does not say that it is in it."""

    def make(claim: Method) -> Method:
        def wrong(feeder: Feeder, known: Feeders) -> None:
            with replaced(feeder, "begin_snapshot", lambda _: lambda _: None):
                claim(feeder, known)

        return wrong

    return replaced(Feeder, "claim", make)


def unclaimed_handle_forgotten() -> Injection:
    def make(positions_of: Method) -> Method:
        def wrong(part: worker_part.MailboxPart, told: Iterable[Any]) -> dict[int, Any]:
            known = [*told]
            found: dict[int, Any] = positions_of(part, known)
            return {handle: at for handle, at in found.items() if any(handle in said for said in known)}

        return wrong

    return replaced(worker_memory, "positions_of", make)


def command_lost() -> Injection:
    def make(undone: Method) -> Method:
        def wrong(mailbox: Mailbox) -> Iterator[Any]:
            yield from list(undone(mailbox))[1:]

        return wrong

    return replaced(Mailbox, "undone", make)


def handle_at_old_time() -> Injection:
    def make(do: Method) -> Method:
        def wrong(command: InputCommand, tokens: Any, first: Any) -> None:
            if command.action != "advance":
                do(command, tokens, first)

        return wrong

    return replaced(worker_part, "_do", make)


def broadcast_repeated() -> Injection:
    def make(own: Method) -> Method:
        def wrong(share: _Share, number: int, pact: Any, message: Any) -> Iterable[Any]:
            found: Iterable[Any] = own(share, number, pact, message)
            return [message] if isinstance(pact, BroadcastPact) else found

        return wrong

    return replaced(_Share, "_own", make)


def key_to_wrong_worker() -> Injection:
    def make(restored: Method) -> Method:
        def wrong(state: OperatorState, name: str, saved: Any, owners: Any, *more: Any) -> Any:
            return restored(state, name, saved, lambda keys, n: [(owner + 1) % n for owner in owners(keys, n)], *more)

        return wrong

    return replaced(OperatorState, "_restored_keys", make)


def messages_stay_where_they_were() -> Injection:
    def wrong(share: _Share, number: int, pact: Any, message: Any) -> Sequence[Any]:
        return [message] if share._inherits(number) else []

    return replaced(_Share, "_own", lambda _: wrong)
