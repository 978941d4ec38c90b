"""Envelopes on their way between processes."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.runtime.worker.envelope import Envelope, InputCommand, Message, decode, encode, uncounted_bytes
from tidewheel.transport.batches import records

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
