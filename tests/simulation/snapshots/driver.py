"""The driver of a simulated job: handles that send what a script says, and the positions from which they go on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, TypeAlias

from tests.simulation.snapshots.world import NUMBERS, Record
from tidewheel.progress import Time
from tidewheel.runtime.messages.envelope import FIRST_HANDLE, Envelope, InputAction, InputCommand
from tidewheel.runtime.messages.input_position import InputPosition, Positions
from tidewheel.transport.socket_address import DRIVER

_FEW = 3
"""The number of keys of substreams."""

Post: TypeAlias = Callable[[int, Envelope], None]
"""Sends an envelope to a worker."""


@dataclass(frozen=True, slots=True)
class Act:
    """What a handle does: send records, advance to a time, end substreams, make another handle at a time, or close."""

    action: InputAction
    time: Time = None
    records: tuple[Record, ...] = ()
    keys: tuple[int, ...] = ()
    handle: int = FIRST_HANDLE


@dataclass(frozen=True, slots=True)
class Script:
    """All that the handles of one input do: each in its order, and between handles in any."""

    handles: dict[int, list[Act]] = field(default_factory=dict)

    @classmethod
    def of(cls, random: Random) -> "Script":
        """Return a random script."""
        script = cls()
        script._add(random, FIRST_HANDLE, 0, random.randint(3, 16))
        return script

    @classmethod
    def with_ends(cls, random: Random) -> "Script":
        """Return a random script of one handle, which ends substreams, and uses their keys again at later times."""
        time, acts = 0, []
        ended: dict[int, int] = {}
        for _ in range(random.randint(3, 24)):
            usable = [number for number in range(_FEW) if ended.get(number, -1) < time]
            match random.choice(("send", "send", "send", "advance", "advance", "end", "end")):
                case "advance":
                    time += random.randint(1, 2)
                    acts.append(Act("advance", time))
                case "send" if usable:
                    records = ((random.choice(usable), random.randint(0, 3)) for _ in range(random.randint(1, 3)))
                    acts.append(Act("send", time, tuple(records)))
                case "end" if usable:
                    keys = random.sample(usable, random.randint(1, len(usable)))
                    ended.update(dict.fromkeys(keys, time))
                    acts.append(Act("end", time, keys=tuple(keys)))
        return cls({FIRST_HANDLE: [*acts, Act("close")]})

    def _add(self, random: Random, handle: int, time: int, size: int) -> None:
        acts = self.handles[handle] = []
        for _ in range(size):
            match random.choice(("send", "send", "send", "advance", "advance", "clone")):
                case "send":
                    records = ((random.randrange(NUMBERS), random.randint(0, 3)) for _ in range(random.randint(1, 3)))
                    acts.append(Act("send", time, tuple(records)))
                case "advance":
                    time += random.randint(1, 2)
                    acts.append(Act("advance", time))
                case _ if len(self.handles) < 3:
                    other = len(self.handles)
                    acts.append(Act("clone", time + random.randint(0, 2), handle=other))
                    self._add(random, other, acts[-1].time, random.randint(0, 5))
        acts.append(Act("close"))

    def feed(self) -> list[tuple[Time, list[int]]]:
        """Return the numbers of all that is sent, by time."""
        sent = [act for acts in self.handles.values() for act in acts if act.action == "send"]
        return [(act.time, [number for number, _ in act.records]) for act in sorted(sent, key=lambda act: act.time)]


class Driver:
    """Does what scripts say, one act of some handle after the other.

    A position counts as ``batches`` all that its handle has done, so that it says where in the script that is.

    Args:
        scripts: by the name of the input.
        positions: where handles go on; None for the beginning.
        snapshot: the number of the snapshot from which the job goes on.
        post: sends an envelope to a worker.
        workers: how many there are.
        random: decides which handle acts, and to which worker it sends.

    Attributes:
        snapshot: the number of the snapshot that it is in.
        hand_over: receives the name, number, time and snapshot of a handle that is made for another process; it may
            return False, and then this one has it.
    """

    number = DRIVER

    def __init__(
        self,
        scripts: Mapping[str, Script],
        positions: Positions | None,
        snapshot: int,
        post: Post,
        workers: int,
        random: Random,
        incarnation: int,
    ) -> None:
        self._scripts = scripts
        self._post = post
        self._workers = workers
        self._random = random
        self._incarnation = incarnation
        self._sequences = [count() for _ in range(workers)]
        self.snapshot = snapshot
        self.hand_over: Callable[[str, int, Time, int], bool] = lambda *_: False
        at = positions if positions is not None else {name: {FIRST_HANDLE: InputPosition(0)} for name in scripts}
        self.handles: dict[str, dict[int, InputPosition]] = {name: dict(handles) for name, handles in at.items()}

    @property
    def is_done(self) -> bool:
        """Whether all handles are closed."""
        return not any(self.handles.values())

    def act(self) -> None:
        """Have some handle do what it does next."""
        some = [(name, handle) for name, handles in self.handles.items() for handle in handles]
        if some:
            self._act(*self._random.choice(some))

    def _act(self, name: str, handle: int) -> None:
        position = self.handles[name][handle]
        act = self._scripts[name].handles[handle][position.batches]
        time = act.time if act.action == "advance" else position.time
        self.handles[name][handle] = InputPosition(time, position.batches + 1)
        match act.action:
            case "send":
                command = InputCommand(name, "send", None, list(act.records), handle=handle)
                self._send(self._random.randrange(self._workers), commands=[command])
                return
            case "clone":
                command = InputCommand(name, "clone", act.time, handle=act.handle, origin=handle)
            case "end":
                command = InputCommand(name, "end", None, list(act.keys), handle=handle)
            case "close":
                del self.handles[name][handle]
                command = InputCommand(name, "close", handle=handle)
            case _:
                command = InputCommand(name, "advance", act.time, handle=handle)
        for worker in range(self._workers):
            self._send(worker, commands=[command])
        if act.action == "clone" and not self.hand_over(name, act.handle, act.time, self.snapshot):
            self.handles[name][act.handle] = InputPosition(act.time)

    def begin_snapshot(self, number: int) -> None:
        """Begin a snapshot: from here on all that is sent belongs to it."""
        self.snapshot = number
        for worker in range(self._workers):
            self._send(worker, marker=() if worker else self._positions())

    def _positions(self) -> Positions:
        return {name: dict(handles) for name, handles in self.handles.items()}

    def _send(self, worker: int, **parts: Any) -> None:
        sequence = next(self._sequences[worker])
        self._post(worker, Envelope(self.number, self._incarnation, sequence, snapshot=self.snapshot, **parts))
