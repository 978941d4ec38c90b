"""The mailbox of an input: it orders the commands of handles, and keeps their positions."""

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
    """Commands, oldest first. A handle's commands wait for the command that makes the handle.

    A handle that was passed on has another feeder than the feeder that made it, and commands of two feeders come in any
    order. The commands of one feeder keep their order: if a command waits for a missing handle, all later commands wait
    too.

    Attributes:
        begun: the position of each handle when it was passed on, and of the first handle when it was closed.
        lanes: for the operator, pending work from each worker of a snapshot with another number of workers: (token,
            batch or keys, True for ended keys).
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
        """Set the handles and batches of a snapshot."""
        self._saved = saved

    def open(self, input_name: str, token: TimestampToken) -> None:
        """Make the tokens of the initial handles from the operator's initial token.

        Additional handles send batches and end substreams that are pending in the snapshot, and are then closed.
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
        """Execute an action that is pending in the snapshot, by an additional handle, before any feeder's command."""
        handle = -1 - len(self._queue)
        self.tokens[handle] = token
        self._queue.append((DRIVER, InputCommand(input_name, action, batch=batch, handle=handle)))
        self._queue.append((DRIVER, InputCommand(input_name, "close", handle=handle)))

    def undone(self) -> Iterator[tuple[int, InputCommand]]:
        """Yield the commands not yet executed, each with its feeder, in order of arrival."""
        yield from self._queue
        for feeder, early in self._early.items():
            yield from ((feeder, command) for command in early)

    def put(self, feeder: int, command: InputCommand) -> None:
        early = self._early.get(feeder)
        if early is not None:
            early.append(command)
        elif _user(command) not in self._known:
            self._early[feeder] = deque([command])
        elif self._accept(feeder, command) and self._early:
            self._let_in()

    def _accept(self, feeder: int, command: InputCommand) -> bool:
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
        is_made = True
        while is_made:
            is_made = False
            for feeder, early in list(self._early.items()):
                while early and _user(early[0]) in self._known:
                    is_made |= self._accept(feeder, early.popleft())
                if not early:
                    del self._early[feeder]

    def take(self) -> InputCommand:
        feeder, command = self._queue.popleft()
        self._intake.count(feeder, command.size)
        return command

    @property
    def next_sends(self) -> bool:
        return bool(self._queue) and self._queue[0][1].action == "send"

    def __bool__(self) -> bool:
        return bool(self._queue)


def _user(command: InputCommand) -> int:
    return command.origin if command.action == "clone" else command.handle
