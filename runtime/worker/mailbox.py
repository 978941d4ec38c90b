"""The mailbox of an input: it puts the commands of handles in order, and keeps their positions."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from tidewheel.runtime.messages.envelope import FIRST_HANDLE, InputAction, InputCommand
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.state.worker_part import SavedMailbox, note_position
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.flow_control import Intake
from tidewheel.transport.socket_address import DRIVER


class Mailbox:
    """Commands, oldest first, in an order that makes sense: none of a handle comes before that which makes it.

    A handle that was handed over is used by another feeder than the one that made it, and what two feeders send comes
    in any order. What one feeder sends keeps its order: all of it waits for a handle that is not there yet.

    Args:
        intake: counts what is taken from here.

    Attributes:
        tokens: that of each handle, by the handle's number; the operator keeps them here.
        begun: where handles that were handed over were then; of the first one, where it was closed.
        lanes: what each of another number of workers had not done, as (token, batch or keys, whether these have ended);
            the operator does it.
    """

    def __init__(self, intake: Intake) -> None:
        self.tokens: dict[int, TimestampToken] = {}
        self._intake = intake
        self._queue: deque[tuple[int, InputCommand]] = deque()
        self._known = {FIRST_HANDLE}
        self._early: dict[int, deque[InputCommand]] = {}
        self._saved: SavedMailbox | None = None
        self.begun: dict[int, InputPosition] = {}
        self.lanes: list[list[tuple[TimestampToken, Any, bool]]] = []

    def begins_with(self, saved: SavedMailbox | None) -> None:
        """Have it begin with the handles and batches of a snapshot; None for its first handle alone."""
        self._saved = saved

    def open(self, input_name: str, token: TimestampToken) -> None:
        """Make the tokens of the handles with which it begins, from the operator's initial token.

        What a snapshot has to send or to end is done by a handle of its own, which is closed right behind it.
        """
        if self._saved is None:
            self.tokens[FIRST_HANDLE] = token
            return
        self._known = set(self._saved.tokens)
        self.tokens.update((handle, token.delayed(time)) for handle, time in self._saved.tokens.items())
        for action, time, batch in self._saved.first:
            self.do_first(input_name, action, token.delayed(time), batch)
        for lane in self._saved.lanes:
            self.lanes.append([(token.delayed(time), batch, action == "end") for action, time, batch in lane])
        token.discard()

    def do_first(self, input_name: str, action: InputAction, token: TimestampToken, batch: Any) -> None:
        """Have the operator do something by a handle of its own; only before any feeder has sent something."""
        handle = -1 - len(self._queue)
        self.tokens[handle] = token
        self._queue.append((DRIVER, InputCommand(input_name, action, batch=batch, handle=handle)))
        self._queue.append((DRIVER, InputCommand(input_name, "close", handle=handle)))

    def undone(self) -> Iterator[tuple[int, InputCommand]]:
        """Yield the commands that the operator has not done, each with its feeder, in the order in which they came."""
        yield from self._queue
        for feeder, early in self._early.items():
            yield from ((feeder, command) for command in early)

    def put(self, feeder: int, command: InputCommand) -> None:
        """Take a command in."""
        early = self._early.get(feeder)
        if early is not None:
            early.append(command)
        elif _user(command) not in self._known:
            self._early[feeder] = deque([command])
        elif self._accept(feeder, command) and self._early:
            self._let_in()

    def _accept(self, feeder: int, command: InputCommand) -> bool:
        """Put a command in its place; return whether it makes a handle."""
        self._queue.append((feeder, command))
        if command.action == "close":
            self._known.discard(command.handle)
            note_position(self.begun, command)
        elif command.action == "clone":
            self._known.add(command.handle)
            note_position(self.begun, command)
            return True
        return False

    def _let_in(self) -> None:
        """Accept what has waited for handles that are there now."""
        is_made = True
        while is_made:
            is_made = False
            for feeder, early in list(self._early.items()):
                while early and _user(early[0]) in self._known:
                    is_made |= self._accept(feeder, early.popleft())
                if not early:
                    del self._early[feeder]

    def take(self) -> InputCommand:
        """Take the oldest command out."""
        feeder, command = self._queue.popleft()
        self._intake.count(feeder, command.size)
        return command

    @property
    def next_sends(self) -> bool:
        """Whether the oldest command sends a batch."""
        return bool(self._queue) and self._queue[0][1].action == "send"

    def __bool__(self) -> bool:
        return bool(self._queue)


def _user(command: InputCommand) -> int:
    """Return the handle that has to be there for a command."""
    return command.origin if command.action == "clone" else command.handle
