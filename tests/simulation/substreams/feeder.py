"""The feeder of one input of a simulation, which keeps its promises."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.simulation.substreams.record import Life, Record
from tests.simulation.substreams.world import World
from tidewheel.runtime.messages.envelope import FIRST_HANDLE, Envelope, InputAction, InputCommand
from tidewheel.transport.socket_address import DRIVER

KEYS = 4


@dataclass(slots=True)
class _Handle:
    """A handle of an input: who has it, and its time."""

    number: int
    feeder: int
    time: int


class Feeder:
    """Sends, advances, ends keys and uses them again at later times, by several handles, from one or two processes.

    Each process has keys of its own, so that what it does to a key comes to each worker in one order; and as a handle
    that was handed over may be heard of before it is known, the second process has only one. Where a key has an owner,
    all of the key is sent to one worker.
    """

    def __init__(self, world: World, number: int, next_sequence: Callable[[int, int], int]) -> None:
        self._world = world
        self._number = number
        self._input = f"input {number}"
        self._random = world.scenario.random(self._input)
        self._feeders = self._random.choice((1, 1, 2))
        self._sequence = next_sequence
        self._handles = [_Handle(FIRST_HANDLE, 0, 0)]
        self._numbers = count(FIRST_HANDLE + 1)
        self._closed_at: dict[int, int] = {}
        self._open: set[int] = set()

    def act(self) -> None:
        """Do something at random."""
        if not self._handles:
            return
        handle = self._random.choice(self._handles)
        match self._random.choice(("send",) * 5 + ("end",) * 3 + ("advance",) * 2 + ("clone", "close")):
            case "send":
                self._send(handle)
            case "end":
                self._end(handle)
            case "advance":
                handle.time += self._random.choice((1, 1, 2))
                self._everywhere(handle, "advance", handle.time)
            case "clone" if len(self._handles) < 4 and handle.feeder == 0:
                self._clone(handle)
            case "close" if len(self._handles) > 1:
                self._close(handle)

    def close(self) -> None:
        """Close all handles."""
        for handle in list(self._handles):
            self._close(handle)

    def misuse(self) -> bool:
        """Send a record of a key that has ended, at a time at which it has; return False if there is none."""
        for handle in self._handles:
            for key in self._mine(handle):
                if key not in self._open and self._closed_at.get(key, -1) >= handle.time:
                    of_no_life = Record(Life(self._number, key, 0), 0, 0)
                    self._post(handle, self._worker_of(key), "send", batch=[of_no_life])
                    return True
        return False

    # ------------------------------------------------------------------ what it does

    def _mine(self, handle: _Handle) -> list[int]:
        return [key for key in range(KEYS) if key % self._feeders == handle.feeder]

    def _usable(self, handle: _Handle) -> list[int]:
        """Return the keys of which this handle may send: those that have not ended, or ended before its time."""
        return [key for key in self._mine(handle) if self._closed_at.get(key, -1) < handle.time]

    def _worker_of(self, key: int) -> int:
        """Return a worker to which records of a key are sent: any one, or that to which all of them are."""
        workers = self._world.workers
        return self._random.randrange(workers) if self._world.is_shared[self._number] else key * 3 % workers

    def _life(self, key: int) -> Life:
        """Return the life of a key that is open, or begins now."""
        if key not in self._open:
            self._open.add(key)
            self._world.lives[self._number, key] += 1
        return Life(self._number, key, self._world.lives[self._number, key])

    def _send(self, handle: _Handle) -> None:
        usable = self._usable(handle)
        if not usable:
            return
        worker = self._worker_of(self._random.choice(usable))
        batch = [
            Record(self._life(key), self._random.randint(0, 20), self._random.randint(0, 3))
            for key in self._random.choices(usable, k=self._random.randint(1, 4))
            if self._world.is_shared[self._number] or self._worker_of(key) == worker
        ]
        if batch:
            self._post(handle, worker, "send", batch=batch)

    def _end(self, handle: _Handle) -> None:
        usable = self._usable(handle)
        keys = self._random.sample(usable, min(len(usable), self._random.randint(1, 3)))
        for key in keys:
            life = self._life(key)
            self._open.discard(key)
            self._closed_at[key] = handle.time
            if not self._world.is_shared[self._number]:
                self._post(handle, self._worker_of(key), "send", batch=[Record(life, key, 1, is_last=True)])
        if keys and self._world.is_shared[self._number]:
            self._everywhere(handle, "end", batch=keys)

    def _clone(self, origin: _Handle) -> None:
        alone = any(handle.feeder == 1 for handle in self._handles)
        handle = _Handle(next(self._numbers), 0 if alone else self._random.randrange(self._feeders), origin.time)
        for worker in range(self._world.workers):
            command = InputCommand(self._input, "clone", origin.time, None, 0, handle.number, origin.number)
            self._carry(origin, worker, command)
        self._handles.append(handle)

    def _close(self, handle: _Handle) -> None:
        self._handles.remove(handle)
        self._everywhere(handle, "close")

    def _everywhere(self, handle: _Handle, action: InputAction, time: int | None = None, batch: Any = None) -> None:
        for worker in range(self._world.workers):
            self._post(handle, worker, action, time, batch)

    def _post(
        self, handle: _Handle, worker: int, action: InputAction, time: int | None = None, batch: Any = None
    ) -> None:
        self._carry(handle, worker, InputCommand(self._input, action, time, batch, handle=handle.number))

    def _carry(self, handle: _Handle, worker: int, command: InputCommand) -> None:
        sender = DRIVER - handle.feeder
        envelope = Envelope(sender, 0, self._sequence(sender, worker), commands=[command])
        self._world.network.post(sender, worker, envelope)
