"""The faults seeded into what snapshots have of substreams."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.operators.substreams import labeller
from tidewheel.operators.substreams.waiting_keys import WaitingKeys
from tidewheel.progress.substream_tracker import SubstreamTracker
from tidewheel.runtime.messages.envelope import InputCommand
from tidewheel.runtime.state import worker_part
from tidewheel.runtime.substreams import substream_share
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.substreams.substream_part import FirmPart, GatePart
from tidewheel.runtime.substreams.substream_share import SubstreamShare
from tidewheel.runtime.worker.firm_mailbox import FirmMailbox
from tidewheel.runtime.worker.worker_substreams import WorkerSubstreams

Method = Callable[..., Any]


def open_key_lost() -> Injection:
    """The gate does not know again which keys were let in."""
    return _gates_have(open=[])


def closed_key_open_again() -> Injection:
    """What had ended, and was not over, is not closed again."""

    def make(part: Method) -> Method:
        def wrong(gate: SubstreamGate) -> GatePart:
            made: GatePart = part(gate)
            made.closed = [one for one in made.closed if one.is_over]
            return made

        return wrong

    return replaced(SubstreamGate, "part", make)


def _gates_have(**what: Any) -> Injection:
    def make(part: Method) -> Method:
        def wrong(gate: SubstreamGate) -> GatePart:
            made: GatePart = part(gate)
            for name, value in what.items():
                setattr(made, name, value)
            return made

        return wrong

    return replaced(SubstreamGate, "part", make)


def news_missed() -> Injection:
    """What worker 0 has told, and has not arrived, is not added to the part."""
    return replaced(WorkerSubstreams, "add_late", lambda _: lambda *_: None)


def ends_told_again() -> Injection:
    """Worker 0 does not know again what it has told."""
    return replaced(SubstreamTracker, "go_on", lambda _: lambda *_: None)


def held_piece_lost() -> Injection:
    """What waits for its substream to end is not saved."""

    def make(part: Method) -> Method:
        def wrong(mailbox: FirmMailbox) -> FirmPart:
            made: FirmPart = part(mailbox)
            made.held = []
            return made

        return wrong

    return replaced(FirmMailbox, "part", make)


def end_of_a_handle_lost() -> Injection:
    """Of what an input has not done, it does not end substreams."""

    def make(do: Method) -> Method:
        def wrong(command: InputCommand, tokens: Any, first: Any) -> None:
            if command.action != "end":
                do(command, tokens, first)

        return wrong

    return replaced(worker_part, "_do", make)


def waiting_key_forgotten() -> Injection:
    """A gate does not know again that something waits for a key to be over."""
    return _gates_have(waiting=[], reopened=[])


def last_ends_forgotten() -> Injection:
    """Where the number of workers changes, an end at which one worker has looked is told to none."""
    return replaced(SubstreamShare, "_ends", lambda _: lambda share, port, lanes: min(lanes, key=len))


def closed_for_all_too_early() -> Injection:
    """Where the number of workers changes, a key is closed at all gates that was closed at one."""

    def make(shared: Method) -> Method:
        def wrong(gates: Sequence[GatePart]) -> GatePart:
            made: GatePart = shared(gates)
            closed = {one.key: one for gate in gates for one in gate.closed if not one.is_over}
            made.closed = list({**{one.key: one for one in made.closed}, **closed}.values())
            made.open = [key for key in made.open if key not in closed]
            return made

        return wrong

    return replaced(substream_share, "_shared_gate", make)


def ends_done_by_each() -> Injection:
    """Where the number of workers changes, what waits on several workers is done by turn, each with its own ends."""

    def wrong(lanes: Sequence[WaitingKeys]) -> WaitingKeys:
        keys = dict.fromkeys(key for lane in lanes for key in lane)
        return {key: deque(one for lane in lanes for one in lane.get(key, ())) for key in keys}

    return replaced(labeller, "joined", lambda _: wrong)


def gates_keep_their_keys() -> Injection:
    """Where the number of workers changes, a key that is not an input's stays at the gate where it was, if it can."""

    def wrong(share: SubstreamShare, gates: Sequence[GatePart]) -> GatePart:
        gate = gates[share.worker % len(gates)]
        return replace(gate, waiting=[], reopened=[])

    return replaced(SubstreamShare, "_owned", lambda _: wrong)
