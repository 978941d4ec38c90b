"""The part of a snapshot that one worker takes: what its operators keep, and what they have not received yet."""

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
    """What a feeder has said to an input, and the input has not done."""

    feeder: int
    command: InputCommand


@dataclass(slots=True)
class MailboxPart:
    """What an input has, and has not done.

    Attributes:
        tokens: the time of each handle's token, by the handle's number.
        commands: what it has not done, each feeder's in its order.
        begun: where handles that were handed over were then; of the first one, where it was closed.
    """

    tokens: dict[int, Time]
    commands: list[UndoneCommand]
    begun: dict[int, InputPosition] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorPart:
    """One operator on one worker.

    Attributes:
        kept: what it keeps.
        unread: the messages that wait at each of its inputs.
        mailbox: what it has of feeders, if it is an input.
        substreams: what it knows of substreams, if it knows something.
    """

    kept: OperatorCut
    unread: list[list[Unread]]
    mailbox: MailboxPart | None = None
    substreams: SubstreamPart | None = None

    @property
    def has_state(self) -> bool:
        """Whether the operator keeps state, even if that is empty now."""
        kept = self.kept.states or self.kept.keyed or self.kept.times
        return bool(kept) or self.mailbox is not None or self.substreams is not None


@dataclass(slots=True)
class WorkerPart:
    """What one worker adds to a snapshot.

    Attributes:
        number: that of the snapshot.
        worker: that of the worker, and ``workers``, how many there are.
        operators: by name.
        positions: how far each feeder has sent, as far as this worker was told.
    """

    number: int
    worker: int
    workers: int
    operators: dict[str, OperatorPart] = field(default_factory=dict)
    positions: dict[int, Positions] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all that is kept by key is in it, so that it needs no part before it."""
        cuts = (cut for one in self.operators.values() for cut in one.kept.keyed.values())
        return all(cut.begins and cut.ends for cut in cuts)

    @property
    def with_state(self) -> tuple[str, ...]:
        """The names of the operators that keep state, even if that is empty now."""
        return tuple(name for name, one in self.operators.items() if one.has_state)

    @property
    def with_records(self) -> tuple[str, ...]:
        """The names of the operators for which records wait."""
        return tuple(name for name, one in self.operators.items() if any(one.unread))


class SavedMailbox(NamedTuple):
    """What an input has to begin with on one worker.

    Attributes:
        tokens: the time of each open handle, by the handle's number.
        first: the batches that it has to send first, and the keys whose substreams it has to end, each with the time.
        lanes: the same from each of another number of workers, where substreams are divided: all have to end these.
    """

    tokens: dict[int, Time]
    first: list[tuple[InputAction, Time, Batch]]
    lanes: Sequence[Sequence[tuple[InputAction, Time, Batch]]] = ()


def positions_of(part: MailboxPart, told: Iterable[Mapping[int, InputPosition]]) -> dict[int, InputPosition]:
    """Return where the open handles of an input are, and its first one, from what feeders have told.

    Where a handle was handed over and nobody uses it yet, it is where it was then.
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
    """Note where a handle is as it is handed over, or the one with the place of the first as it is closed."""
    if command.action == "close":
        positions.pop(command.handle, None)
    if command.batch is not None and command.action in ("clone", "close"):
        positions[FIRST_HANDLE if command.action == "close" else command.handle] = command.batch


def outcome_of(part: MailboxPart) -> SavedMailbox:
    """Return what comes of the commands of a mailbox: the handles behind them, and what they send and end.

    What waits for a handle that is not there yet comes once that is there, as in a `Mailbox`.
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
