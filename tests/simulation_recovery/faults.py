"""The faults seeded into snapshots, each of which must be caught: how we know that the checks check."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.kit.simulation.fault import Fault
from tests.kit.simulation.injection import Injection, replaced
from tests.simulation_recovery import substream_faults as substreams
from tests.simulation_recovery.driver import Driver
from tests.simulation_recovery.feeders import Feeder
from tests.simulation_recovery.scenario import RecoveryScenario
from tests.simulation_recovery.simulation import Simulation
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


def _late_envelope_missed() -> Injection:
    return replaced(WorkerMemory, "_add_late", lambda _: lambda *_: None)


def _message_recorded_twice() -> Injection:
    def make(add_late: Method) -> Method:
        def wrong(memory: WorkerMemory, part: worker_part.WorkerPart, envelope: Envelope) -> None:
            add_late(memory, part, envelope)
            for message in envelope.messages[-1:]:
                at = memory._compiled.locations[message.target]
                unread = part.operators[memory._instances[at.operator].name].unread[at.port]
                unread.append(unread[-1])

        return wrong

    return replaced(WorkerMemory, "_add_late", make)


def _applied_and_recorded() -> Injection:
    def wrong(cut: Cut, number: int) -> bool:
        return number <= cut.number and cut.settled < 0

    return replaced(Cut, "is_late", lambda _: wrong)


def _recorded_until_any_marker() -> Injection:
    """What is late is recorded only until the first member has said that it is in the new snapshot."""

    def wrong(cut: Cut, member: int, number: int) -> bool:
        is_last = number >= cut.number and member in cut._awaited
        if is_last:
            cut._awaited.clear()
        return is_last

    return replaced(Cut, "arrived", lambda _: wrong)


def _taken_after_the_first_envelope() -> Injection:
    def wrong(core: WorkerCore, envelope: Envelope) -> None:
        if core._substreams.holds_back(envelope):
            return
        core._apply(envelope)
        core.memory.arrives(envelope)
        for early in core._substreams.hear(envelope.substreams) if envelope.substreams is not None else ():
            core._take_in(early)

    return replaced(WorkerCore, "_take_in", lambda _: wrong)


def _marker_not_sent() -> Injection:
    """Where a worker has nothing else to tell a peer, it does not tell it of the snapshot."""

    def make(envelopes: Method) -> Method:
        return lambda outbox, *others: envelopes(outbox, *others[:-1], None)

    return replaced(Outbox, "envelopes", make)


def _token_lost() -> Injection:
    """Of the times for which a notificator waits, one is not saved."""

    def make(cut: Method) -> Method:
        def wrong(state: OperatorState) -> OperatorCut:
            made: OperatorCut = cut(state)
            for number, notificator in enumerate(state.notificators):
                made.times[number] = state._pickled(OperatorCut(), "times", notificator.tokens[1:])
            return made

        return wrong

    return replaced(OperatorState, "cut", make)


def _token_twice() -> Injection:
    def make(token_again: Method) -> Method:
        def wrong(output: RunningOutput, *place: Any, **is_live: Any) -> TimestampToken:
            token_again(output, *place, **is_live)
            made: TimestampToken = token_again(output, *place, **is_live)
            return made

        return wrong

    return replaced(RunningOutput, "token_again", make)


def _old_tokens_stay() -> Injection:
    """The tokens in values that have been replaced since are not discarded."""
    return replaced(OperatorState, "_discard_others", lambda _: staticmethod(lambda *_: None))


def _change_not_noted() -> Injection:
    """What was set since the last cut is not written, unless all is."""
    return replaced(KeyedState, "_cut_some", lambda cut: lambda state, _, changeable: cut(state, {}, changeable))


def _gone_key_comes_back() -> Injection:
    return _cuts(lambda cut: cut._replace(gone=[]))


def _sweep_ends_early() -> Injection:
    """The second part of a sweep counts as its last, so files are let go that are still needed."""
    return _cuts(lambda cut: cut if cut.begins else cut._replace(ends=True))


def _cuts(change: Callable[[KeyedCut], KeyedCut]) -> Injection:
    return replaced(KeyedState, "cut", lambda cut: lambda state: change(cut(state)))


def _old_value_wins() -> Injection:
    def make(entries_of: Method) -> Method:
        return lambda changes, load: entries_of(list(reversed(changes)), load)

    return replaced(operator_state, "entries_of", make)


def _given_up_changes_lost() -> Injection:
    """What writes parts may notice it: a sweep ends that it has not seen begin."""
    return replaced(WorkerMemory, "write_all_next", lambda _: lambda _: None)


def _positions_before_the_marker() -> Injection:
    def make(begin_snapshot: Method) -> Method:
        def wrong(driver: Driver, number: int) -> None:
            positions = driver._positions()
            driver.act()
            with replaced(driver, "_positions", lambda _: lambda: positions):
                begin_snapshot(driver, number)

        return wrong

    return replaced(Driver, "begin_snapshot", make)


def _left_feeder_waited_for() -> Injection:
    """A feeder that has left is still waited for, where worker 0 has not heard of that when it begins a snapshot."""
    return replaced(Cut, "gone", lambda _: lambda cut, feeder, _: cut.arrived(feeder, cut.number))


def _joins_unheard() -> Injection:
    """A feeder that joins in a snapshot that worker 0 has not begun does not say that it is in it."""

    def make(claim: Method) -> Method:
        def wrong(feeder: Feeder, known: Feeders) -> None:
            with replaced(feeder, "begin_snapshot", lambda _: lambda _: None):
                claim(feeder, known)

        return wrong

    return replaced(Feeder, "claim", make)


def _unclaimed_handle_forgotten() -> Injection:
    def make(positions_of: Method) -> Method:
        def wrong(part: worker_part.MailboxPart, told: Iterable[Any]) -> dict[int, Any]:
            known = [*told]
            found: dict[int, Any] = positions_of(part, known)
            return {handle: at for handle, at in found.items() if any(handle in said for said in known)}

        return wrong

    return replaced(worker_memory, "positions_of", make)


def _command_lost() -> Injection:
    def make(undone: Method) -> Method:
        def wrong(mailbox: Mailbox) -> Iterator[Any]:
            yield from list(undone(mailbox))[1:]

        return wrong

    return replaced(Mailbox, "undone", make)


def _handle_at_old_time() -> Injection:
    def make(do: Method) -> Method:
        def wrong(command: InputCommand, tokens: Any, first: Any) -> None:
            if command.action != "advance":
                do(command, tokens, first)

        return wrong

    return replaced(worker_part, "_do", make)


def _broadcast_repeated() -> Injection:
    def make(own: Method) -> Method:
        def wrong(share: _Share, number: int, pact: Any, message: Any) -> Iterable[Any]:
            found: Iterable[Any] = own(share, number, pact, message)
            return [message] if isinstance(pact, BroadcastPact) else found

        return wrong

    return replaced(_Share, "_own", make)


def _key_to_wrong_worker() -> Injection:
    def make(restored: Method) -> Method:
        def wrong(state: OperatorState, name: str, saved: Any, owners: Any, *more: Any) -> Any:
            return restored(state, name, saved, lambda keys, n: [(owner + 1) % n for owner in owners(keys, n)], *more)

        return wrong

    return replaced(OperatorState, "_restored_keys", make)


def _messages_stay_where_they_were() -> Injection:
    def wrong(share: _Share, number: int, pact: Any, message: Any) -> Sequence[Any]:
        return [message] if share._inherits(number) else []

    return replaced(_Share, "_own", lambda _: wrong)


def _several(scenario: RecoveryScenario) -> bool:
    return scenario.lives[0].workers > 1


def _rescaled(scenario: RecoveryScenario) -> bool:
    return scenario.is_rescaled


def _swept(scenario: RecoveryScenario) -> bool:
    return scenario.least_swept < 4


def _divided(scenario: RecoveryScenario) -> bool:
    return bool(Simulation(scenario).plan.declarations)


def _divided_among_several(scenario: RecoveryScenario) -> bool:
    return _several(scenario) and _divided(scenario)


def _divided_and_rescaled(scenario: RecoveryScenario) -> bool:
    return _rescaled(scenario) and _divided(scenario)


_SAVED = frozenset({"restored", "outputs", "liveness"})
_OF_SUBSTREAMS = _SAVED | {"ends", "border", "safety", "raised"}

FAULTS: tuple[Fault[RecoveryScenario], ...] = (
    Fault("a late envelope missed", _late_envelope_missed, _SAVED),
    Fault("a message recorded twice", _message_recorded_twice, _SAVED, _several),
    Fault("a message applied and recorded", _applied_and_recorded, _SAVED),
    Fault("late envelopes recorded too short", _recorded_until_any_marker, _SAVED, _several),
    Fault("a part taken after the first envelope", _taken_after_the_first_envelope, _SAVED, _several),
    Fault("a marker not sent", _marker_not_sent, frozenset({"snapshot"}), _several),
    Fault("a token lost", _token_lost, _SAVED),
    Fault("a token saved twice", _token_twice, _SAVED),
    Fault("tokens of old values stay", _old_tokens_stay, _SAVED, _swept),
    Fault("a changed key not noted", _change_not_noted, _SAVED, _swept),
    Fault("a gone key that comes back", _gone_key_comes_back, _SAVED, _swept),
    Fault("a sweep that ends too early", _sweep_ends_early, _SAVED, _swept),
    Fault("an old value that wins", _old_value_wins, _SAVED, _swept),
    Fault("changes lost with a snapshot that is given up", _given_up_changes_lost, _SAVED | {"raised"}, _swept),
    Fault("positions before the marker", _positions_before_the_marker, _SAVED | {"raised"}),
    Fault("a feeder waited for that has left", _left_feeder_waited_for, frozenset({"snapshot"}), _several),
    Fault("a feeder that joins unheard", _joins_unheard, frozenset({"snapshot"}), _several),
    Fault("a handle forgotten that nobody has claimed", _unclaimed_handle_forgotten, _SAVED),
    Fault("a command lost", _command_lost, _SAVED),
    Fault("a handle at an old time", _handle_at_old_time, _SAVED),
    Fault("a broadcast repeated", _broadcast_repeated, _SAVED, _rescaled),
    Fault("a key to the wrong worker", _key_to_wrong_worker, _SAVED, _rescaled),
    Fault("messages that stay where they were", _messages_stay_where_they_were, _SAVED, _rescaled),
    Fault("an open key lost", substreams.open_key_lost, _OF_SUBSTREAMS, _divided),
    Fault("a closed key that is open again", substreams.closed_key_open_again, _OF_SUBSTREAMS, _divided),
    Fault("a key forgotten that something waits for", substreams.waiting_key_forgotten, _OF_SUBSTREAMS, _divided),
    Fault("news of substreams missed", substreams.news_missed, _OF_SUBSTREAMS, _divided_among_several),
    Fault("ends told again", substreams.ends_told_again, _OF_SUBSTREAMS, _divided),
    Fault("a held piece lost", substreams.held_piece_lost, _OF_SUBSTREAMS, _divided),
    Fault("an end of a handle lost", substreams.end_of_a_handle_lost, _OF_SUBSTREAMS, _divided),
    Fault("last ends forgotten", substreams.last_ends_forgotten, _OF_SUBSTREAMS, _divided_and_rescaled),
    Fault("a key closed too early", substreams.closed_for_all_too_early, _OF_SUBSTREAMS, _divided_and_rescaled),
    Fault("ends done by each worker", substreams.ends_done_by_each, _OF_SUBSTREAMS, _divided_and_rescaled),
    Fault("gates that keep their keys", substreams.gates_keep_their_keys, _OF_SUBSTREAMS, _divided_and_rescaled),
)
