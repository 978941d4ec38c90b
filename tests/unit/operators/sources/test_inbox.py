"""What an inbox makes of lines of JSON and streams of Arrow, and how often records of a key count."""

import json
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

    def __post_init__(self) -> None:
        if self.sum < 0:
            raise ArithmeticError("the sum is negative")


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth > 1 else []


def lines(text: str) -> Posting:
    return Posting(text.encode(), form="json")


def stream_of(*tables: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for table in tables:
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
        (None, '"' + "[" * 200 + '"\n' + "[" * 99 + "]" * 99, ["[" * 200, nested(99)]),
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
        (None, "1\n" + "[" * 50_000),
        (None, "[1]\n" + "[" * 101 + "]" * 101),
        (Payment, '{"to": "b", "sum": 3}\n{"to": "b", "sum": -1}'),
    ],
    ids=["syntax", "type", "text", "surrogate", "too deep", "deep", "negative"],
)
def test_a_wrong_line_is_named(records: Any, text: str) -> None:
    """By its number in the body, and with what is wrong about it."""
    decode = Decode.of("payments", records)
    with raises(ValueError):
        decode(lines(text))


INNER = pa.struct([pa.field("a", pa.int64(), nullable=False)])
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("small", pa.int8()),
        ("real", pa.float64()),
        ("short", pa.float32()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("list", pa.list_(pa.int64())),
        ("inner", INNER),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("bytes", pa.binary()),
        ("word", pa.dictionary(pa.int32(), pa.string())),
    ]
)


@pytest.mark.parametrize(
    "line",
    [
        "1",
        "[1]",
        "{}",
        '{"id": null}',
        '{"id": 1.5}',
        '{"id": true}',
        '{"id": "1"}',
        '{"id": 1180591620717411303424}',
        '{"id": 1, "other": 3}',
        '{"id": 1, "small": 128}',
        '{"id": 1, "real": 9007199254740993}',
        '{"id": 1, "short": 1e300}',
        '{"id": 1, "flag": 1}',
        '{"id": 1, "day": 3.7}',
        '{"id": 1, "at": 1.9}',
        '{"id": 1, "list": [1, 1.5]}',
        '{"id": 1, "inner": {"a": 1, "b": 2}}',
        '{"id": 1, "inner": {}}',
        '{"id": 1, "inner": [["a", 1]]}',
        '{"id": 1, "map": {"a": 1.5}}',
        '{"id": 1, "word": 3}',
    ],
)
def test_json_that_would_change_in_a_column_is_refused(line: str) -> None:
    """Also what would be left out; the message has the number of the line."""
    with raises(ValueError):
        Decode.of("payments", COLUMNS)(lines(f'{{"id": 7}}\n\n{line}\n{{"id": 8}}'))


def test_json_for_a_schema_keeps_its_values() -> None:
    """Whole numbers may be floats of JSON and times, texts may be bytes, and short floats are rounded."""
    rows = [
        {"id": 1, "small": 2.0, "real": 3, "short": 0.1, "flag": True, "day": 3, "at": 2**62, "list": [1, None]},
        {"id": 2, "inner": {"a": 1}, "map": {"a": 1}, "bytes": "ab", "word": "ab"},
    ]
    found = Decode.of("payments", COLUMNS)(lines("\n".join(map(json.dumps, rows))))
    assert found == pa.Table.from_pylist(rows, schema=COLUMNS)


def test_streams_of_arrow_become_tables() -> None:
    """Of the schema, if the inbox has one; other bytes are refused."""
    table = pa.table({"n": [1, 2]})
    decode = Decode.of("payments", table.schema)
    assert decode(Posting(stream_of(table), form="arrow")) == table
    for wrong in (b"nothing of the kind", b"", stream_of(table)[:-20]):
        with pytest.raises(ValueError, match="Arrow"):
            decode(Posting(wrong, form="arrow"))
    with raises(TypeError):
        decode(Posting(stream_of(pa.table({"m": [1]})), form="arrow"))


@pytest.mark.parametrize("records", [dict[str, int], Payment, dict])
def test_streams_of_arrow_need_an_inbox_with_a_schema_or_none(records: Any) -> None:
    """The values of a column are not converted to a class, as those of JSON are."""
    with raises(ValueError):
        Decode.of("payments", records)(Posting(stream_of(pa.table({"n": ["text"]})), form="arrow"))


class Pickled(pa.ExtensionType):  # type: ignore[misc]
    """A type that runs code when Arrow reads it, as one of Ray's does."""

    read = 0

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.pickled")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> "Pickled":
        cls.read += 1
        return cls()


def pickled(column: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(Pickled(), column)


@pytest.mark.parametrize("is_nested", [False, True])
def test_extension_types_are_refused_before_arrow_reads_them(is_nested: bool) -> None:
    """Such a type may be of any class in the process, and read its values by pickle."""
    column = pickled(pa.array([1, 2]))
    if is_nested:
        column = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 2], column)], ["inner"])
    body = stream_of(pa.table({"n": column}))
    pa.register_extension_type(Pickled())
    Pickled.read = 0
    try:
        with raises(ValueError):
            Decode.of("payments", None)(Posting(body, form="arrow"))
        assert Pickled.read == 0
    finally:
        pa.unregister_extension_type("tests.pickled")


WORDS = pa.array(["a", "b"]).dictionary_encode()
MORE_WORDS = pa.DictionaryArray.from_arrays(pa.array([2, 0], pa.int32()), ["a", "b", "c"])
NEVER_NULL = pa.field("n", pa.int64(), nullable=False)
TIMES = pa.table({"n": range(1000), "word": WORDS.take(pa.array([0, 1] * 500))})


@pytest.mark.parametrize(
    "body",
    [
        stream_of(pa.table({"n": [0.0] * 1000}), compression="zstd"),
        stream_of(pa.table({"n": [0.0] * 1000}), compression="lz4"),
        stream_of(pa.table({"n": pa.DictionaryArray.from_arrays([0], ["a" * 1000])}), compression="zstd"),
        stream_of(pa.table({"n": WORDS}), pa.table({"n": MORE_WORDS}), emit_dictionary_deltas=True),
        stream_of(TIMES) + stream_of(TIMES),
        stream_of(TIMES) + b"junk",
        stream_of(pa.Table.from_arrays([pa.array([1, None])], schema=pa.schema([NEVER_NULL]))),
    ],
    ids=["zstd", "lz4", "dictionary", "delta", "two", "junk", "null"],
)
def test_streams_that_grow_in_memory_or_are_not_one_stream_are_refused(body: bytes) -> None:
    """A worker's memory is in proportion to what clients send, and nothing of a body is passed over."""
    with raises(ValueError):
        Decode.of("payments", None)(Posting(body, form="arrow"))


@pytest.mark.parametrize(
    "body",
    [
        stream_of(pa.table({"n": pa.nulls(10**6)})),
        stream_of(*[pa.table({"n": pa.nulls(200)})] * 50),
        stream_of(pa.table({"n": pa.ListArray.from_arrays([0, 10**6], pa.nulls(10**6))})),
        stream_of(pa.table({"n": pa.RunEndEncodedArray.from_arrays([10**6], [1])})),
    ],
    ids=["nulls", "batches of nulls", "list", "runs"],
)
def test_streams_with_more_rows_than_bytes_are_refused(body: bytes) -> None:
    """Nulls and runs take no bytes in the stream, and many once records are made of them."""
    with pytest.raises(ValueError, match="at most one row"):
        Decode.of("payments", None)(Posting(body, form="arrow"))


@pytest.mark.parametrize(
    "table",
    [
        TIMES,
        TIMES.slice(100, 17),
        pa.table({"n": pa.array([], pa.int64())}),
        pa.table({"n": pa.nulls(20), "text": ["a", None] * 10, "list": [[1, 2], []] * 10, "struct": [{"a": 1}] * 20}),
        pa.table({"n": pa.array(["long enough for a view of its own", "b"], pa.string_view())}),
        pa.concat_tables([TIMES] * 5),
    ],
)
def test_usual_streams_are_read(table: pa.Table) -> None:
    """With dictionaries, nested columns, views, several batches, or no rows."""
    assert Decode.of("payments", None)(Posting(stream_of(table), form="arrow")) == table


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
    send(0, [Post([2], "b", 16_000.0, "b")])
    send(0, [Post([1], "a", 18_200.0, "a")])
    assert records() == [1, 1, 1, 2], "also if none was swept meanwhile"
