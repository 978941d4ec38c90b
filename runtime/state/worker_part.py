"""One worker's part of a snapshot: the state of its operators, and their pending messages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidewheel.batches.batches import Batch
from tidewheel.progress import Time
from tidewheel.runtime.messages.envelope import FIRST_HANDLE, InputAction, InputCommand
from tidewheel.runtime.messages.input_position import InputPosition, Positions
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.state.operator_state import OperatorCut
from tidewheel.runtime.substreams.substream_part import SubstreamPart


class UndoneCommand(NamedTuple):
    """A feeder's command that the input has not executed yet."""

    feeder: int
    command: InputCommand


@dataclass(slots=True)
class MailboxPart:
    """The state of an input on one worker.

    Attributes:
        begun: the position of each handle when it was passed on, and of the first handle when it was closed.
    """

    tokens: dict[int, Time]
    commands: list[UndoneCommand]
    begun: dict[int, InputPosition] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorPart:
    """One operator on one worker: its state and messages, an input's mailbox, and its knowledge of substreams."""

    kept: OperatorCut
    unread: list[list[Unread]]
    mailbox: MailboxPart | None = None
    substreams: SubstreamPart | None = None

    @property
    def has_state(self) -> bool:
        kept = self.kept.states or self.kept.keyed or self.kept.times
        return bool(kept) or self.mailbox is not None or self.substreams is not None


@dataclass(slots=True)
class WorkerPart:
    """One worker's part of a snapshot.

    Attributes:
        positions: the positions of each feeder's handles, as far as this worker knows them.
    """

    number: int
    worker: int
    workers: int
    operators: dict[str, OperatorPart] = field(default_factory=dict)
    positions: dict[int, Positions] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """True if the part has all keyed state, so that it needs no earlier part."""
        cuts = (cut for one in self.operators.values() for cut in one.kept.keyed.values())
        return all(cut.begins and cut.ends for cut in cuts)

    @property
    def with_state(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.operators.items() if one.has_state)

    @property
    def with_records(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.operators.items() if any(one.unread))


class SavedMailbox(NamedTuple):
    """The initial state of an input on one worker.

    Attributes:
        first: the actions to do first: batches to send and keys whose substreams end, each with its time.
        lanes: the actions from each former worker, instead of ``first``, if the number of workers has changed and every
            worker must end the substreams of all.
    """

    tokens: dict[int, Time]
    first: list[tuple[InputAction, Time, Batch]]
    lanes: Sequence[Sequence[tuple[InputAction, Time, Batch]]] = ()


def positions_of(part: MailboxPart, told: Iterable[Mapping[int, InputPosition]]) -> dict[int, InputPosition]:
    """Return the positions of an input's open handles and of its first handle, as feeders have reported them.

    A handle that was passed on and not used yet has the position that it had when it was passed on.
    """
    begun = dict(part.begun)
    for _, command in part.commands:
        note_position(begun, command)
    claims = [begun, *told]
    closed = [said[FIRST_HANDLE] for said in claims if FIRST_HANDLE in said]
    found = {FIRST_HANDLE: max(closed, key=_progress)} if closed else {}
    for handle, time in outcome_of(part).tokens.items():
        known = [said[handle] for said in claims if handle in said and said[handle].time == time]
        found[handle] = max(known, key=_progress, default=InputPosition(time))
    return found


def _progress(position: InputPosition) -> tuple[int, int]:
    return position.batches, position.ends


def note_position(positions: dict[int, InputPosition], command: InputCommand) -> None:
    """Record the position in a command that passes on a handle or closes the first handle."""
    if command.action == "close":
        positions.pop(command.handle, None)
    if command.batch is not None and command.action in ("clone", "close"):
        positions[FIRST_HANDLE if command.action == "close" else command.handle] = command.batch


def outcome_of(part: MailboxPart) -> SavedMailbox:
    """Return the outcome of a mailbox's commands: the open handles, their batches and the ended substreams.

    Commands for a missing handle wait for it, as in a `Mailbox`.
    """
    tokens = dict(part.tokens)
    first: list[tuple[InputAction, Time, Batch]] = []
    left = list(part.commands)
    while left:
        waits: list[UndoneCommand] = []
        for undone in left:
            command = undone.command
            needs = command.origin if command.action == "clone" else command.handle
            if needs not in tokens or any(before.feeder == undone.feeder for before in waits):
                waits.append(undone)
            else:
                _do(command, tokens, first)
        if len(waits) == len(left):
            break
        left = waits
    return SavedMailbox(tokens, first)


def _do(command: InputCommand, tokens: dict[int, Any], first: list[tuple[InputAction, Time, Batch]]) -> None:
    match command.action:
        case "send" | "end":
            first.append((command.action, tokens[command.handle], command.batch))
        case "advance":
            tokens[command.handle] = command.time
        case "clone":
            tokens[command.handle] = command.time
        case "close":
            del tokens[command.handle]
