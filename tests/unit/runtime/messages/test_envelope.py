"""Envelopes on their way between processes, and the order in which they are received."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.kit.runtime.inboxes import missing
from tidewheel.batches.batches import records
from tidewheel.progress import ProtocolError
from tidewheel.runtime.messages.envelope import Envelope, InputCommand, Message, decode, encode, uncounted_bytes
from tidewheel.runtime.worker.ordered_inbox import OrderedInbox

BATCHES: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, "a", None, (2, 3)],
    "array": lambda: np.arange(6).reshape(3, 2),
    "structured array": lambda: np.array([(1, "a")], dtype=[("n", "i4"), ("text", "U1")]),
    "table": lambda: pa.table({"n": [1, 2, None], "text": ["a", None, "ü"]}),
    "table of chunks": lambda: pa.concat_tables([pa.table({"n": [1]}), pa.table({"n": [2, 3]})]),
    "record batch": lambda: pa.record_batch({"n": [[1], [2, 3]]}),
    "dictionaries": lambda: pa.table(
        {"text": pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()])}
    ),
    "metadata": lambda: pa.table({"n": [1]}).replace_schema_metadata({"made": "by hand"}),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_an_envelope_arrives_as_it_was(kind: str) -> None:
    """Pickled and unpickled, every field is the same, and every batch of the same kind with the same records."""
    batch = BATCHES[kind]()
    envelope = Envelope(
        1, 99, 5, [Message(3, (0, 1), batch)], [((3, (0, 1)), 1)], [InputCommand("numbers", "send", 4, batch)]
    )
    arrived = pickle.loads(pickle.dumps(envelope, protocol=5))
    assert (arrived.sender, arrived.incarnation, arrived.sequence) == (1, 99, 5)
    assert arrived.progress == envelope.progress
    [message], [command] = arrived.messages, arrived.commands
    assert (message.target, message.time) == (3, (0, 1))
    assert (command.input, command.action, command.time) == ("numbers", "send", 4)
    for there in (message.batch, command.batch):
        assert type(there) is type(batch)
        assert records(there) == records(batch)
        if kind == "metadata":
            assert there.schema.metadata == batch.schema.metadata


@pytest.mark.parametrize("make", [pa.table, pa.record_batch])
def test_a_slice_travels_without_its_whole(make: Any) -> None:
    """What is sent is as long as the slice and not as the batch that it was cut from."""
    whole = make({"n": np.arange(100_000)})
    assert len(pickle.dumps(Message(0, 0, whole), protocol=5)) > 800_000
    assert len(pickle.dumps(Message(0, 0, whole.slice(10, 5)), protocol=5)) < 2_000


def test_empty_parts_are_shared_by_nobody() -> None:
    """Envelopes that were made without messages do not share a list."""
    one, other = Envelope(0, 0, 0), Envelope(0, 0, 1)
    assert (one.messages, one.progress, one.commands) == ([], [], [])
    assert one.messages is not other.messages


@pytest.mark.parametrize("batch", [["x" * 100_000], np.zeros(100_000), pa.table({"n": np.zeros(100_000)})], ids=type)
@pytest.mark.parametrize("counted", [0, 7, 10_000_000])
@pytest.mark.parametrize("fed", [True, False])
def test_batches_count_for_what_their_frames_hold(batch: Any, counted: int, fed: bool) -> None:
    """Both ends count the same: what was estimated, or what was pickled if that is more."""
    envelope = Envelope(0, 0, 0, [Message(3, 0, [1], 5), Message(3, 0, batch, counted)])
    if fed:
        envelope = Envelope(0, 0, 0, commands=[InputCommand("numbers", "send", 0, batch, counted)])
    head, *buffers = encode(envelope)
    size = len(head) + sum(map(len, buffers))
    arrived = decode(head, buffers)
    counts = [message.size for message in arrived.messages] + [command.size for command in arrived.commands]
    before = counted if fed else counted + 5
    assert sum(counts) == before + uncounted_bytes(envelope, size) == max(before, size)
    assert counts[:-1] == ([] if fed else [5])


def test_small_frames_are_not_looked_into() -> None:
    """Neither end counts more for them, and neither for progress without a batch."""
    envelope = Envelope(0, 0, 0, [Message(3, 0, ["x" * 1000], 5)])
    (head,) = encode(envelope)
    assert decode(head).messages == envelope.messages
    assert uncounted_bytes(envelope, len(head)) == 0
    assert uncounted_bytes(Envelope(0, 0, 0), 1 << 20) == 0


def test_what_comes_early_waits() -> None:
    """Items come out in the order in which they were sent, as soon as nothing before them is missing."""
    inbox: OrderedInbox[str] = OrderedInbox()
    assert inbox.accept("a", 0, 2, "third") == []
    assert inbox.accept("a", 0, 1, "second") == []
    assert missing(inbox) == {"a": 0}
    assert inbox.accept("a", 0, 0, "first") == ["first", "second", "third"]
    assert missing(inbox) == {}
    assert inbox.accept("a", 0, 3, "fourth") == ["fourth"]


def test_repeated_items_are_dropped_and_counted() -> None:
    """An item comes out once, whether its twin comes after it or while it waits; the first one counts."""
    inbox: OrderedInbox[str] = OrderedInbox()
    inbox.accept("a", 0, 1, "second")
    assert inbox.accept("a", 0, 1, "twin") == []
    assert inbox.accept("a", 0, 0, "first") == ["first", "second"]
    assert inbox.accept("a", 0, 0, "twin") == []
    assert inbox.accept("a", 0, 1, "twin") == []
    assert inbox.duplicates == 3


def test_senders_do_not_wait_for_each_other() -> None:
    """Each sender has an order and an incarnation of its own."""
    inbox: OrderedInbox[str] = OrderedInbox()
    assert inbox.accept("a", 1, 1, "late") == []
    assert inbox.accept("b", 2, 0, "now") == ["now"]
    assert inbox.accept(7, 0, 0, "any name") == ["any name"]
    assert missing(inbox) == {"a": 0}


@pytest.mark.parametrize("incarnation", [0, 2])
def test_another_incarnation_is_refused(incarnation: int) -> None:
    """A sender that has restarted, or an item of its earlier life, is refused by name; the stream itself goes on."""
    inbox: OrderedInbox[str] = OrderedInbox()
    inbox.accept("worker 3", 1, 0, "first")
    with pytest.raises(ProtocolError) as refusal:
        inbox.accept("worker 3", incarnation, 1, "second")
    assert str(refusal.value).startswith(f"sender 'worker 3' was incarnation 1 and is now {incarnation}: ")
    assert inbox.accept("worker 3", 1, 1, "second") == ["second"]


def test_a_lost_item_is_an_error_and_not_a_leak() -> None:
    """When more wait than the capacity, the item before them is taken for lost, and the error names it."""
    inbox: OrderedInbox[str] = OrderedInbox(capacity=2)
    inbox.accept("a", 0, 0, "first")
    inbox.accept("a", 0, 2, "third")
    inbox.accept("a", 0, 3, "fourth")
    with pytest.raises(ProtocolError) as refusal:
        inbox.accept("a", 0, 4, "fifth")
    assert str(refusal.value) == "item 1 of sender 'a' was lost: 4 has come"
