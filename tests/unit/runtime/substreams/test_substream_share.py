"""The share of a worker in the substreams of others: no end is missed, and none meets the next substream of its key."""

from collections.abc import Iterable

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.runtime.description.pacts import SubstreamPact
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.substreams.substream_part import (
    ClosedKey,
    EndOfPiece,
    FirmPart,
    GatePart,
    SubstreamPart,
    ViewPart,
)
from tidewheel.runtime.substreams.substream_share import KeysInUse, SubstreamShare


def everything(_: int, __: int, message: Unread) -> Iterable[Unread]:
    return [message]


def gate(*closed: ClosedKey, open_keys: Iterable[str] = (), over: Iterable[str] = ()) -> SubstreamPart:
    return SubstreamPart(GatePart("keys", 0, list(open_keys), list(closed), [], [], list(over)))


def share(parts: list[SubstreamPart], gates: list[SubstreamPart] | None = None, workers: int = 3) -> SubstreamPart:
    """Return what worker 0 begins with, without an exchange."""
    in_use = KeysInUse(parts if gates is None else gates)
    return SubstreamShare("op", [None], parts, in_use, 0, workers).part(everything, is_shared=True)


def looking(*left: list[str]) -> list[SubstreamPart]:
    """Return what workers know that have ends left to look at."""
    return [SubstreamPart(ends={0: [*keys]}) for keys in left]


def test_every_end_is_told_that_some_worker_has_not_looked_at() -> None:
    """In their order."""
    parts = looking(["b", "c"], ["a", "b", "c"])
    assert share(parts).ends == {0: ["a", "b", "c"]}


def test_an_owner_is_told_what_the_owner_before_had_not_looked_at() -> None:
    """Where each substream is on one worker."""
    keys = [f"key {number}" for number in range(20)]
    parts = looking(keys, [])
    told = [
        SubstreamShare("op", [SubstreamPact()], parts, KeysInUse(()), worker, 3)
        .part(everything, is_shared=False)
        .ends[0]
        for worker in range(3)
    ]
    assert told == [[key for key in keys if owner_of(key, 2) == 0 and owner_of(key, 3) == n] for n in range(3)]


def test_an_end_that_could_meet_the_next_substream_is_refused() -> None:
    """The error says which operator and key, and what to do; without the next substream it is told."""
    parts = looking([], ["a"])
    with raises(tw.errors.SnapshotError):
        share(parts, [gate(open_keys=["a"])])
    closed = gate(ClosedKey("a", 0, False, False))
    closed.view = ViewPart({"a": [("op", 0)]}, {})
    assert share(parts, [closed]).ends == share(parts, [gate(open_keys=["a"], over=["a"])]).ends == {0: ["a"]}
    twice = looking(["a"], ["a", "a"])
    with raises(tw.errors.SnapshotError):
        share(twice, [])


def test_a_key_is_closed_once_all_gates_have_closed_it() -> None:
    """Where one has not, its end still waits on that worker. It is over if any has been told so."""
    closed, is_over = ClosedKey("a", 0, False, True), ClosedKey("a", 0, True, False)
    both = share([gate(closed), gate(closed)]).gate
    assert both is not None
    assert (both.open, both.closed) == ([], [closed])
    for other in (gate(), gate(open_keys=["a"])):
        one = share([gate(closed), other]).gate
        assert one is not None
        assert (one.open, one.closed) == (["a"], [])
    over = share([gate(ClosedKey("a", 0, False, False), over=["a"]), gate()]).gate
    assert over is not None
    assert (over.open, over.closed) == ([], [is_over])


def unread(key: str, number: int) -> Unread:
    return Unread(0, [number], (0, key))


def test_pieces_come_before_their_ends() -> None:
    """What two workers hold of a substream is one piece, and what is of none comes behind."""
    plain = Unread(0, ["plain"], None)
    behind = FirmPart([unread("a", 1), EndOfPiece("a"), plain], [unread("b", 2), unread("c", 3)], [], ends=["b"])
    ahead = FirmPart([unread("b", 4), EndOfPiece("b")], [unread("c", 5)], [])
    made = share([SubstreamPart(firm={0: part}) for part in (behind, ahead)]).firm[0]
    end_a, end_b = EndOfPiece("a"), EndOfPiece("b")
    assert made.queue == [unread("a", 1), end_a, unread("b", 2), unread("b", 4), end_b, plain]
    assert (made.held, made.ends) == ([unread("c", 3), unread("c", 5)], [])


def test_turns_go_on() -> None:
    """On a cycle a mailbox delivers what is of the first turn, and the rest waits for that to end."""
    plain = Unread(0, ["plain"], None)
    behind = FirmPart([], [unread("a", 1), unread("b", 2)], [], closed=["a", "b"])
    ahead = FirmPart([unread("a", 3)], [unread("b", 4)], [plain], turns=["a", "b"])
    made = share([SubstreamPart(firm={0: part}) for part in (behind, ahead)]).firm[0]
    assert made.queue == [unread("a", 1), unread("a", 3)]
    assert (made.held, made.between, made.turns) == ([unread("b", 2), unread("b", 4)], [plain], ["a", "b"])


def test_a_piece_that_is_used_again_is_refused_within_it() -> None:
    """A worker that may have begun the next piece of a key is not told of the end before that."""
    queues = [[EndOfPiece("a")], [EndOfPiece("a"), EndOfPiece("a")]]
    with raises(tw.errors.SnapshotError):
        share([SubstreamPart(firm={0: FirmPart(list(queue), [], [])}) for queue in queues])
