"""The promises of every kind of link: all that is sent arrives as it was, once, in order; no sender waits for a peer.

To test a kind of link of your own, say in a `LinkKind` how its members are made, and

    class TestMyLink(LinkConformance):
        kind = MyLinkKind()

`PeerConformance` has the tests with peers in processes of their own, `ReceiverConformance` those of waking up.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pickle import PickleBuffer, PicklingError
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from tests.links.batch_kinds import same
from tests.links.link_kind import DEADLINE_S, INCARNATION, Arrivals, LinkKind, Member, Task, letter, within
from tidewheel.progress import ProtocolError
from tidewheel.runtime.messages.envelope import Envelope, InputCommand, Message
from tidewheel.transport.pieces import PIECE_BYTES

MEGABYTE = 1 << 20
LENGTHS = (0, 3, 20_000)
"""Of batches: with the last, their buffers are worth a frame of their own."""


class Stubborn:
    """Raises what it likes when it is pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise ValueError("no")


def nest(depth: int) -> list[Any]:
    """Return lists within lists, deeper than Python follows."""
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


UNPICKLABLE: dict[str, Callable[[], Any]] = {
    "lock": threading.Lock,
    "class that raises": Stubborn,
    "deep": lambda: nest(100_000),
    "scattered buffer": lambda: PickleBuffer(memoryview(bytes(100_000))[::2]),
}


def same_all(sent: Sequence[Any], arrived: Sequence[Any]) -> bool:
    return len(sent) == len(arrived) and all(map(same, sent, arrived))


class LinkConformance:
    """The tests with all members under our eyes."""

    kind: ClassVar[LinkKind]

    def test_order_and_at_most_once(self) -> None:
        """Each of three members sends to all others, in random order, all at the same time: nothing is lost."""
        seed = random.randrange(2**32)
        print("seed", seed)  # noqa: T201 - pytest shows it on failure
        share = self.kind.envelopes // 2

        def send_all(member: Member) -> None:
            peers = [peer for peer in range(3) if peer != member.number for _ in range(share)]
            random.Random(seed + member.number).shuffle(peers)
            sequences = dict.fromkeys(peers, 0)
            for peer in peers:
                member.sender.send(peer, letter(member.number, sequences[peer], [sequences[peer]]))
                sequences[peer] += 1

        with self.kind.members(3) as members:
            sending = [Task(partial(send_all, member)) for member in members]
            for member in members:
                arrivals = Arrivals(member.receiver).take(2 * share)
                assert arrivals.inbox.duplicates == 0
                for peer in {0, 1, 2} - {member.number}:
                    assert arrivals.ordered[peer] == [letter(peer, i, [i]) for i in range(share)]
                    if self.kind.keeps_order:
                        assert [one.sequence for one in arrivals.raw if one.sender == peer] == list(range(share))
            for task in sending:
                task.join()
            assert [member.receiver.receive(0.0) for member in members] == [[], [], []]
            for member in members:
                member.sender.check()

    def test_all_parts_of_an_envelope(self) -> None:
        """Messages, progress and commands arrive together, with their times."""
        times: list[Any] = [0, (1, (2, 3)), None, "text"]
        envelope = Envelope(
            0,
            2**48 - 1,
            0,
            [Message(target, time, [target]) for target, time in enumerate(times)],
            [((3, (0, 1)), 1), ((2, 5), -(2**40))],
            [
                InputCommand("edges", "send", 4, np.arange(9)),
                InputCommand("edges", "advance", (1, 2)),
                InputCommand("ü", "close"),
            ],
        )
        with self.kind.members(2) as members:
            members[0].sender.send(1, envelope)
            [arrived] = Arrivals(members[1].receiver).take(1).raw
        assert (arrived.sender, arrived.incarnation, arrived.sequence) == (0, 2**48 - 1, 0)
        assert (arrived.messages, arrived.progress) == (envelope.messages, envelope.progress)
        assert [(one.input, one.action, one.time) for one in arrived.commands] == [
            (one.input, one.action, one.time) for one in envelope.commands
        ]
        assert same_all([np.arange(9), None, None], [one.batch for one in arrived.commands])

    def test_every_kind_of_batch_survives(self) -> None:
        """Lists of anything, arrays and Arrow data arrive with the same type, contents, shape and schema."""
        batches = {name: [make(n) for n in LENGTHS] for name, make in self.kind.batches.items()}
        with self.kind.members(2) as members:
            for sequence, lengths in enumerate(batches.values()):
                members[0].sender.send(1, letter(0, sequence, *lengths))
            arrived = Arrivals(members[1].receiver).take(len(batches)).ordered[0]
        found = {
            name: [one.batch for one in envelope.messages] for name, envelope in zip(batches, arrived, strict=True)
        }
        assert [name for name in batches if not same_all(batches[name], found[name])] == []

    def test_many_buffers_in_one_envelope(self) -> None:
        """Each finds its way back to its place, those that are worth a frame and those that are not."""
        names = random.Random(5).choices(list(self.kind.batches), k=60)
        batches = [self.kind.batches[name](50 if i % 3 else 5000) for i, name in enumerate(names)]
        names.append("a thousand arrays")
        batches.append([np.full(5000, i, "i4") for i in range(1000)])
        with self.kind.members(2) as members:
            members[0].sender.send(1, letter(0, 0, *batches))
            arrived = Arrivals(members[1].receiver).take(1).batches
        assert [name for name, *pair in zip(names, batches, arrived, strict=True) if not same(*pair)] == []

    @pytest.mark.parametrize("make", [pa.table, pa.record_batch])
    def test_a_slice_leaves_its_whole_behind(self, make: Any) -> None:
        """A few rows of a large table take the memory of a few rows where they arrive."""
        whole = make({"n": np.arange(MEGABYTE)})
        with self.kind.members(2) as members:
            members[0].sender.send(1, letter(0, 0, whole.slice(5000, 5000)))
            [arrived] = Arrivals(members[1].receiver).take(1).batches
        assert same(whole.slice(5000, 5000), arrived)
        assert arrived.get_total_buffer_size() < 10 * 5000 * 8

    def test_large_frames(self) -> None:
        """64 MB of Arrow and 10 MB of a list arrive, and what is sent after them arrives after them."""
        numbers = np.random.default_rng(3).integers(0, 2**62, 8 * MEGABYTE)
        batches: list[Any] = [pa.table({"n": numbers}), [bytes(1000) for _ in range(10_000)], ["last"]]
        with self.kind.members(2) as members:
            for sequence, batch in enumerate(batches):
                members[0].sender.send(1, letter(0, sequence, batch))
            arrived = Arrivals(members[1].receiver).take(3).batches
        assert same_all(batches, arrived)

    def test_sizes_at_which_a_frame_is_divided(self) -> None:
        """Frames of one piece, of just one more or less, and of several arrive whole, beside small ones."""
        sizes = [whole * PIECE_BYTES + more for whole in (1, 2, 3) for more in (-1, 0, 1)]
        array = np.random.default_rng(3).integers(0, 256, 3 * PIECE_BYTES + 1, np.uint8)
        batches: list[Any] = [array[:size].copy() for size in sizes]
        envelopes: list[list[Any]] = [[batch] for batch in batches]
        envelopes += [[np.arange(20_000), *batches, ["small"]], [[batch.tobytes() for batch in batches]]]
        envelopes += [[[array[: size - more].tobytes()]] for size in sizes for more in range(60, 400, 7)]
        with self.kind.members(2) as members:
            for sequence, sent in enumerate(envelopes):
                members[0].sender.send(1, letter(0, sequence, *sent))
            arrived = Arrivals(members[1].receiver).take(len(envelopes)).ordered[0]
        found = [[message.batch for message in envelope.messages] for envelope in arrived]
        pairs = enumerate(zip(envelopes, found, strict=True))
        assert [number for number, pair in pairs if not same_all(*pair)] == []

    def test_arrived_arrays_are_ready_to_use(self) -> None:
        """Columns and arrays can be computed with, also those that lie unaligned, and last beyond their envelope."""
        arrays = [np.arange(20_000, dtype=dtype) for dtype in ("f8", "i2", "g", "c16")]
        with self.kind.members(2) as members:
            members[0].sender.send(1, letter(0, 0, *arrays, pa.table({"n": arrays[0]})))
            *arrived, table = Arrivals(members[1].receiver).take(1).batches
        assert [array.sum() for array in arrived] == [array.sum() for array in arrays]
        assert all(array.flags.aligned for array in arrived if array.dtype.alignment <= 8)
        assert table.column("n").to_numpy().sum() == arrays[0].sum()

    @pytest.mark.parametrize("name", UNPICKLABLE)
    def test_what_cannot_be_pickled_is_not_sent(self, name: str) -> None:
        """The sender is told at once, nothing arrives of it, and the number is free for the next."""
        with self.kind.members(2) as members:
            with pytest.raises((TypeError, AttributeError, PicklingError)):
                members[0].sender.send(1, letter(0, 0, [0], [np.arange(20_000), UNPICKLABLE[name]()]))
            members[0].sender.send(1, letter(0, 0, ["next"]))
            assert Arrivals(members[1].receiver).take(1).raw == [letter(0, 0, ["next"])]

    def test_a_peer_that_does_not_read_keeps_nobody_waiting(self) -> None:
        """Everything is sent before it reads; then it gets all, in order."""
        size = 30 * MEGABYTE // self.kind.envelopes

        def send_all() -> None:
            for sequence in range(self.kind.envelopes):
                members[0].sender.send(1, letter(0, sequence, np.full(size, sequence % 251, np.uint8)))

        with self.kind.members(2) as members:
            within(DEADLINE_S, send_all)
            arrivals = Arrivals(members[1].receiver).take(self.kind.envelopes)
            assert [one.sequence for one in arrivals.ordered[0]] == list(range(self.kind.envelopes))
            values = [int(batch[-1]) for batch in arrivals.batches]
            assert values == [i % 251 for i in range(self.kind.envelopes)]

    def test_another_incarnation_is_refused(self) -> None:
        """A sender that has restarted is noticed: what it sends does not follow on what it sent before."""
        with self.kind.members(2) as members:
            members[0].sender.send(1, letter(0, 0, ["before"]))
            arrivals = Arrivals(members[1].receiver).take(1)
            members[0].sender.send(1, Envelope(0, INCARNATION + 1, 0))
            with pytest.raises(ProtocolError, match=f"was incarnation {INCARNATION} and is now {INCARNATION + 1}"):
                arrivals.take(2)

    def test_closing_with_unsent_data_is_quick(self) -> None:
        """What has not left is lost; closing twice is no error."""
        with self.kind.members(2) as members:
            for sequence in range(16):
                members[0].sender.send(1, letter(0, sequence, np.zeros(4 * MEGABYTE, np.uint8)))
            began_s = time.monotonic()
            members[0].sender.close()
            members[0].sender.close()
            assert time.monotonic() - began_s < 2
