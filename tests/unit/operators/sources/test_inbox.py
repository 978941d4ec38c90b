"""What an inbox makes of lines of JSON and streams of Arrow, and how often records of a key count."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.operators.sources.inbox import Decode, OnceBuild, route_of
from tidewheel.progress import GraphError
from tidewheel.runtime.inputs.door import Post, Posting


@dataclass
class Payment:
    """A record that JSON is converted to."""

    to: str
    sum: int


def lines(text: str) -> Posting:
    return Posting(text.encode(), form="json")


def stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("records", "text", "expected"),
    [
        (None, '{"a": 1}\n\n[2]\n"x"', [{"a": 1}, [2], "x"]),
        (Payment, '{"to": "b", "sum": 3}', [Payment("b", 3)]),
        (tuple[str, int], '["b", 3]\n', [("b", 3)]),
        (dict, '{"to": "b"}\r\n{"to": "c"}', [{"to": "b"}, {"to": "c"}]),
        (pa.schema({"n": pa.int32()}), '{"n": 1}\n{"n": null}', pa.table({"n": pa.array([1, None], pa.int32())})),
        (None, '{\n"a": 1\n}', [{"a": 1}]),
        (int, "", []),
    ],
)
def test_lines_of_json_become_records_of_the_type(records: Any, text: str, expected: Any) -> None:
    """Each line is one record; empty lines are none."""
    assert Decode.of("payments", records)(lines(text)) == expected


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (None, '{"a": 1}\n{"a": \n{"a": 3}'),
        (Payment, '{"to": "b", "sum": 3}\n\n{"to": "b", "sum": "3"}'),
        (int, "1\n2\nx"),
        (None, '"\\ud800"'),
    ],
)
def test_a_wrong_line_is_named(records: Any, text: str) -> None:
    """By its number in the body, and with what is wrong about it."""
    decode = Decode.of("payments", records)
    with raises(ValueError):
        decode(lines(text))


def test_streams_of_arrow_become_tables() -> None:
    """Of the schema, if the inbox has one; other bytes are refused."""
    table = pa.table({"n": [1, 2]})
    decode = Decode.of("payments", table.schema)
    assert decode(Posting(stream_of(table), form="arrow")) == table
    with pytest.raises(ValueError, match="Arrow"):
        decode(Posting(b"nothing of the kind", form="arrow"))
    with raises(TypeError):
        decode(Posting(stream_of(pa.table({"m": [1]})), form="arrow"))


def test_wrong_arguments_are_refused() -> None:
    """When the inbox is made, before any job."""
    with raises(GraphError):
        tw.Dataflow("fraud").inbox("payments", "Payment")  # type: ignore[call-overload]
    with raises(GraphError):
        tw.Dataflow("fraud").inbox("payments", capacity_bytes=0)
    with raises(GraphError):
        tw.Dataflow("fraud").inbox("payments", epoch_every_s=0)


def counted(kept_s: float) -> tuple[Callable[[int, list[Post]], None], Callable[[], list[Any]]]:
    """Return how to send posts to a worker, and the records that count so far."""
    flow = tw.Dataflow("once")
    stream = flow.input("posts")
    stream._unary("once", OnceBuild(kept_s), route_of, notify=False).capture("records")
    group = WorkerGroup(flow, 2)

    def send(worker: int, posts: list[Post]) -> None:
        group.send("posts", posts, worker=worker)
        group.run()

    return send, lambda: sorted(
        record for core in group.cores for _, batch in core.captured("records") for record in batch
    )


def test_a_key_counts_once_whichever_worker_it_comes_to() -> None:
    """Also twice in one batch; records without a key count each time."""
    send, records = counted(kept_s=100.0)
    for worker in (0, 1, 0):
        send(worker, [Post([1], "a", 5.0, "a"), Post([2], "b", 5.0, "b"), Post([1], "a", 5.0, "a")])
        send(worker, [Post([3], None, 5.0, worker)])
    assert records() == [1, 2, 3, 3, 3]


def test_keys_are_forgotten_after_their_time_and_not_before() -> None:
    """By the times at which postings came, so that a run after a crash decides alike."""
    send, records = counted(kept_s=7200.0)
    for at_s in (0.0, 7100.0, 7199.0):
        send(0, [Post([1], "a", at_s, "a")])
    assert records() == [1]
    for at_s in (10_900.0, 10_901.0):
        send(0, [Post([1], "a", at_s, "a")])
    assert records() == [1, 1], "it was forgotten, and counts again once"
