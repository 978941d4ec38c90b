"""The share of one worker in the workers' knowledge of substreams, after their number has changed.

Worker 0 sends all workers the ends at an input in the same order. So the unread ends of each worker are a tail of one
list.

Invariants:

- The gate of an input begins with a key closed only if the key was closed at all gates; otherwise all gates will still
  receive the end.
- The gate of another operator begins with the keys that its worker owns, in the state that they had at their former
  owners.
- An operator receives each end that some worker had not read; if each substream is on one worker, only the ends of its
  own keys. So it may receive an end that a former worker had already read.
- An end must never meet a later substream of its key; a share where that could happen is refused.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.substreams.substream_part import (
    ClosedKey,
    EndOfPiece,
    FirmPart,
    GatePart,
    Place,
    SubstreamPart,
)

Own = Callable[[int, int, Unread], Iterable[Unread]]
"""Called with the worker where a message waited, the number of the input, and the message.

Returns this worker's share.
"""


class KeysInUse:
    """The keys that a gate has accepted or closed, and whose substreams are not over."""

    def __init__(self, parts: Iterable[SubstreamPart]) -> None:
        self._keys: set[Key] = set()
        self._told: dict[Key, list[Place]] = {}
        for part in parts:
            if part.gate is not None:
                gate = _settled_gate(part.gate)
                self._keys.update(gate.open, (one.key for one in gate.closed if not one.is_over))
            if part.view is not None:
                self._told.update(part.view.closed)

    def again(self, key: Key, place: Place) -> bool:
        """Tell whether a later substream may use a key whose end ``place`` has received."""
        return key in self._keys and place not in self._told.get(key, ())


@dataclass(frozen=True, slots=True)
class SubstreamShare:
    operator: str
    pacts: Sequence[Pact | None]
    parts: Sequence[SubstreamPart]
    in_use: KeysInUse
    worker: int
    workers: int

    def part(self, own: Own, *, is_shared: bool) -> SubstreamPart:
        """Return what the worker knows at first; ``is_shared`` says whether every gate closes each key.

        Raises:
            SnapshotError: an end may meet the next substream of the same key.
        """
        first, parts = self.parts[0], self.parts
        made = SubstreamPart(view=first.view if self.worker == 0 else None)
        gates = [_settled_gate(part.gate) for part in parts if part.gate is not None]
        if gates:
            made.gate = _shared_gate(gates) if is_shared else self._owned(gates)
        for port in first.ends:
            made.ends[port] = self._ends(port, [part.ends[port] for part in parts])
        for port in first.firm:
            lanes = [_settled_firm(part.firm[port]) for part in parts]
            made.firm[port] = self._firm(port, lanes, lambda *message, port=port: own(message[0], port, message[1]))
        return made

    def _owned(self, gates: Sequence[GatePart]) -> GatePart:
        own = [key for gate in gates for key in gate.open if self._owns(key)]
        closed = [one for gate in gates for one in gate.closed if self._owns(one.key)]
        return GatePart(gates[0].name, gates[0].number, own, closed, [], [])

    def _owns(self, key: Key) -> bool:
        return owner_of(key, self.workers) == self.worker

    def _ends(self, port: int, lanes: Sequence[list[Key]]) -> list[Key]:
        pact, before = self.pacts[port], len(lanes)
        if pact is not None and pact.keeps_substreams:
            kept = ((number, key) for number, lane in enumerate(lanes) for key in lane)
            at = pact.keeper
            return [key for n, key in kept if (at(key, before), at(key, self.workers)) == (n, self.worker)]
        longest, known = max(lanes, key=len), min(map(len, lanes))
        for key in longest[: len(longest) - known]:
            if longest.count(key) > 1 or self.in_use.again(key, (self.operator, port)):
                self._refuse(key)
        return list(longest)

    def _firm(self, port: int, lanes: Sequence[FirmPart], own: Callable[[int, Unread], Iterable[Unread]]) -> FirmPart:
        pieces = [_pieces(lane.queue) for lane in lanes]
        ends = max(([end.key for _, end in each if end is not None] for each in pieces), key=len)
        for lane, each in zip(lanes, pieces, strict=True):
            begun = each[0][1].key if each[0][1] is not None else next(iter(lane.turns), None)
            if begun is not None and begun in ends[: len(ends) + 1 - len(each)]:
                self._refuse(begun)
        queue: list[Unread | EndOfPiece] = []
        plain: list[Unread] = []
        for place in range(len(ends), -1, -1):
            at = [(number, each[-1 - place][0]) for number, each in enumerate(pieces) if len(each) > place]
            mine = [part for number, piece in at for message in piece for part in own(number, message)]
            queue += [part for part in mine if part.label is not None]
            plain += [part for part in mine if part.label is None]
            if place:
                queue.append(EndOfPiece(ends[-place]))
        turns = lanes[0].turns
        held, between = (
            [part for number, waiting in enumerate(each) for message in waiting for part in own(number, message)]
            for each in ([lane.held for lane in lanes], [lane.between for lane in lanes])
        )
        return FirmPart(queue if turns else [*queue, *plain], held, [*between, *(plain if turns else ())], turns)

    def _refuse(self, key: Key) -> None:
        raise SnapshotError(
            f"operator {self.operator!r} has looked at the end of substream {key!r} on some workers and not on others, "
            f"and the key is in use again. So the job cannot go on from this snapshot with {self.workers} workers "
            f"instead of {len(self.parts)}. Go on with as many as before, take a snapshot, and change the number then"
        )


def _pieces(queue: Iterable[Unread | EndOfPiece]) -> list[tuple[list[Unread], EndOfPiece | None]]:
    made: list[tuple[list[Unread], EndOfPiece | None]] = []
    piece: list[Unread] = []
    for one in queue:
        if isinstance(one, EndOfPiece):
            made.append((piece, one))
            piece = []
        else:
            piece.append(one)
    return [*made, (piece, None)]


def _settled_gate(part: GatePart) -> GatePart:
    over = set(part.over)
    closed = [one._replace(is_over=one.is_over or one.key in over) for one in part.closed]
    left = [one for one in closed if not (one.is_over and one.is_past)]
    return GatePart(part.name, part.number, [key for key in part.open if key not in over], left, [], [])


def _shared_gate(gates: Sequence[GatePart]) -> GatePart:
    by_key: dict[Key, list[ClosedKey]] = {}
    for one in (one for gate in gates for one in gate.closed):
        by_key.setdefault(one.key, []).append(one)
    is_open = dict.fromkeys(key for gate in gates for key in gate.open)
    made: list[ClosedKey] = []
    for key, ones in by_key.items():
        closing = [one for one in ones if not one.is_over]
        if closing and len(closing) < len(gates):
            is_open[key] = None
        elif key not in is_open:
            made.append((closing or ones)[0]._replace(is_past=all(one.is_past for one in closing or ones)))
    return GatePart(gates[0].name, gates[0].number, list(is_open), made, [], [])


def _settled_firm(part: FirmPart) -> FirmPart:
    made = FirmPart(list(part.queue), [], [])
    turns, between = deque(part.turns), list(part.between)
    held: dict[Key, list[Unread]] = {}
    for message in part.held:
        assert isinstance(message.label, tuple), "each message is of one substream"
        held.setdefault(message.label[1], []).append(message)

    def begin_turn() -> None:
        made.queue.extend(between)
        between.clear()
        made.queue.extend(held.pop(turns[0], ()) if turns else ())

    is_first = bool(part.closed) and not turns
    turns.extend(part.closed)
    if is_first:
        begin_turn()
    for key in part.ends:
        made.queue.extend([*held.pop(key, ()), EndOfPiece(key)])
        if turns:
            turns.popleft()
            begin_turn()
    made.held, made.between, made.turns = list(chain.from_iterable(held.values())), between, list(turns)
    return made
