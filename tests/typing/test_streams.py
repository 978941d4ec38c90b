"""The knowledge of type checkers about streams, from the input on.

mypy reads this file with the rest of the tests: each `assert_type` has to be exactly so, and each ``type: ignore`` has
to hide an error. That the same calls can be made is what running them shows.
"""

from collections.abc import Iterator
from typing import Any, assert_type

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidewheel as tw
from tidewheel.batches.batches import Batch
from tidewheel.operators.joins.interval_join_operators import IntervalJoined
from tidewheel.operators.records.routing_operators import Branches, NamedBranches
from tidewheel.operators.sinks.write_files import WrittenEpoch
from tidewheel.progress import Time


def numbers() -> tw.Stream[int]:
    """Return a stream of numbers, of a dataflow of its own."""
    return tw.Dataflow("types").input("numbers", int)


def words(beside: tw.Stream[Any]) -> tw.Stream[str]:
    """Return a stream of words of the same dataflow."""
    return beside.flow.input("words", str)


def length(word: str) -> int:
    """Return the length of a word."""
    return len(word)


def pair(word: str) -> tuple[str, int]:
    """Return a word and its length."""
    return word, len(word)


def half(number: int) -> int:
    """Return half a number."""
    return number // 2


class Lines(tw.Source[str]):
    """A source that says what its records are."""

    def partitions(self) -> list[str]:
        """Return none."""
        return []

    def open(self, partition: str | int, position: object) -> Iterator[tuple[list[str], int]]:
        """Read none."""
        yield [], 0


class Columns:
    """What a type checker that knows Arrow sees of a schema."""

    @property
    def names(self) -> list[str]:
        """Return none."""
        return []

    def field(self, i: int | str) -> str:
        """Return the name."""
        return str(i)


class Tables(tw.Source[Any]):
    """A source that leaves it open."""

    def partitions(self) -> list[str]:
        """Return none."""
        return []

    def open(self, partition: str | int, position: object) -> Iterator[tuple[Batch, int]]:
        """Read none."""
        yield [], 0


# ---------------------------------------------------------------------- where streams begin


def test_inputs() -> None:
    """Without a type anything may come; with one it is known from there on."""
    flow = tw.Dataflow("types")
    assert_type(flow.input("anything"), tw.Stream[Any])
    assert_type(flow.input("numbers", int), tw.Stream[int])
    either: tw.Stream[Any] = flow.input("some numbers", int | None)
    assert either.flow is flow
    assert_type(flow.input("pairs", tuple[str, int]), tw.Stream[tuple[str, int]])
    assert_type(flow.input("rows", dict[str, Any]), tw.Stream[dict[str, Any]])
    flow.input("lengths", int).map(len)  # type: ignore[arg-type]
    with pytest.raises(tw.GraphError):
        assert_type(flow.input("tables", Columns()), tw.Stream[dict[str, Any]])
    with pytest.raises(tw.GraphError):
        flow.input("wrong", 3)  # type: ignore[call-overload]


def test_sources() -> None:
    """A source is of the records in its batches."""
    flow = tw.Dataflow("types")
    assert_type(flow.source("lines", Lines()), tw.Stream[str])
    assert_type(flow.source("tables", Tables()), tw.Stream[Any])
    assert_type(flow.source("batches", tw.IterableSource([[(0, [1, 2])], [(1, [3])]])), tw.Stream[int])
    assert_type(flow.source("records", tw.RecordSource(["to", "be"])), tw.Stream[str])
    assert_type(flow.source("ticks", tw.TickSource(1.0)), tw.Stream[int])
    assert_type(flow.source("queue", tw.QueueSource[float]()), tw.Stream[float])
    flow.source("lengths", Lines()).map(half)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- records


def test_records() -> None:
    """A function of records has to take what the stream has, and what it returns is what the next one has."""
    stream = words(numbers())
    assert_type(stream.map(length), tw.Stream[int])
    assert_type(stream.map(pair).map(lambda found: found[1]), tw.Stream[int])
    assert_type(stream.flat_map(str.split), tw.Stream[str])
    assert_type(stream.filter(str.isupper), tw.Stream[str])
    letters = stream.flow.dead_letters()
    assert_type(stream.map(int, dead_letters=letters), tw.Stream[int])
    assert_type(letters.map(lambda letter: letter.message), tw.Stream[str])
    assert_type(stream.map_batches(len), tw.Stream[Any])
    assert_type(stream.inspect(length), tw.Stream[str])
    assert_type(stream.inspect_batches(lambda batch, time, worker: len(batch)), tw.Stream[str])
    stream.map(half)  # type: ignore[arg-type]
    stream.flat_map(length)  # type: ignore[arg-type]
    stream.filter(half)  # type: ignore[arg-type]
    stream.map(length).filter(str.isupper)  # type: ignore[arg-type]
    stream.map(half, dead_letters=letters)  # type: ignore[arg-type]
    stream.inspect(half)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- substreams


def key_and_sum(key: str, rows: list[int]) -> tuple[str, int]:
    return key, sum(rows)


def test_substreams() -> None:
    """A divided stream has the same records; what is collected of them decides."""
    divided = numbers().substreams("rests", half)
    assert_type(numbers().exchange(half).substreams("rests", half, last=bool), tw.Stream[int])
    assert_type(divided.without_substreams(), tw.Stream[int])
    assert_type(divided.collect_substream(key_and_sum), tw.Stream[tuple[str, int]])


# ---------------------------------------------------------------------- where records go


def test_routes() -> None:
    """Wherever records go, they stay what they are."""
    stream = numbers()
    assert_type(stream.exchange(half), tw.Stream[int])
    assert_type(stream.broadcast(), tw.Stream[int])
    assert_type(stream.rebalance(), tw.Stream[int])
    assert_type(stream.concat(stream, stream), tw.Stream[int])
    assert_type(stream.branch(bool), Branches[int])
    assert_type(stream.branch(bool).rest, tw.Stream[int])
    assert_type(stream.branch(small=bool), NamedBranches[int])
    assert_type(stream.branch(small=bool).small, tw.Stream[int])
    assert_type(stream.partition(2, half), tuple[tw.Stream[int], ...])
    stream.concat(words(stream))  # type: ignore[arg-type]
    stream.branch(len)  # type: ignore[arg-type]
    stream.partition(2, len)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- loops and times


def test_times() -> None:
    """Another time makes no other record."""
    stream = numbers()
    assert_type(stream.delay(lambda number, time: number + time), tw.Stream[int])
    assert_type(stream.branch_when(bool), Branches[int])
    assert_type(stream.on_frontier(lambda frontier, worker: len(frontier)), tw.Stream[int])
    stream.delay(lambda number, time: len(number))  # type: ignore[arg-type]


# ---------------------------------------------------------------------- epochs and keys


def join_up(total: int, word: str) -> int:
    """Return a total with the length of a word in it."""
    return total + len(word)


def test_epochs() -> None:
    """Keys are what the function of the key returns; with names of columns they may be anything."""
    stream = words(numbers())
    assert_type(stream.aggregate(length, start=int, add=join_up), tw.Stream[tuple[int, int]])
    assert_type(stream.aggregate(length, start=int, add=join_up, finish=lambda key, total: str(total)), tw.Stream[str])
    assert_type(stream.aggregate("word", start=int, add=join_up), tw.Stream[tuple[Any, int]])
    assert_type(stream.count(), tw.Stream[tuple[str, int]])
    assert_type(stream.count(length), tw.Stream[tuple[int, int]])
    assert_type(stream.count("word"), tw.Stream[tuple[Any, int]])
    assert_type(stream.aggregate(length, add=max), tw.Stream[tuple[int, str]])
    assert_type(stream.distinct(), tw.Stream[str])
    assert_type(stream.sort(length), tw.Stream[str])
    assert_type(stream.top_k(3, order=length), tw.Stream[str])
    assert_type(stream.sample(0.5), tw.Stream[str])
    stream.aggregate(half, start=int, add=join_up)  # type: ignore[arg-type]
    stream.aggregate(length, start=str, add=join_up)  # type: ignore[misc]
    stream.count(half)  # type: ignore[arg-type]
    stream.aggregate(length, add=join_up)  # type: ignore[arg-type]
    stream.sort(half)  # type: ignore[arg-type]
    stream.top_k(3, key=half)  # type: ignore[arg-type]


def test_state_by_key() -> None:
    """A step gets the state that `start` makes, and the stream's records."""
    stream = words(numbers())

    def step(total: int, word: str) -> tuple[int, float]:
        return total + 1, 0.5

    assert_type(stream.accumulate(length, start=int, add=join_up), tw.Stream[tuple[int, int]])
    assert_type(stream.accumulate(length, start=int, add=join_up, finish=lambda key, total: str(total)), tw.Stream[str])
    assert_type(stream.stateful_map(length, start=int, step=step), tw.Stream[float])
    assert_type(stream.deduplicate(), tw.Stream[str])
    stream.accumulate(half, start=int, add=join_up)  # type: ignore[arg-type]
    stream.stateful_map(length, start=str, step=step)  # type: ignore[misc]
    stream.deduplicate(half)  # type: ignore[arg-type]


def test_windows() -> None:
    """What comes out of a window is what was made of its records; what was late is the record."""
    stream = words(numbers())
    minute = tw.TumblingWindows(60)
    plain = stream.window(minute, key=length, at=length)
    assert_type(plain, tw.types.Windowed[str, list[str]])
    assert_type(plain.results, tw.Stream[tw.types.WindowResult[list[str]]])
    assert_type(plain.late, tw.Stream[tw.types.LateRecord[str]])
    assert_type(stream.window(minute, key=length, at=length, start=int, add=join_up), tw.types.Windowed[str, int])
    assert_type(stream.window(minute, key=length, at=length, finish=len), tw.types.Windowed[str, int])
    stream.window(minute, key=half, at=length)  # type: ignore[arg-type]
    stream.window(minute, key=length, at=length, start=str, add=join_up)  # type: ignore[misc]


# ---------------------------------------------------------------------- columns


def test_columns() -> None:
    """Rows of tables are dicts; what is in them is for Arrow to know."""
    schema = pa.schema({"word": pa.string(), "n": pa.int64()})
    flow = tw.Dataflow("types")
    stream = flow.input("rows", dict[str, Any])
    assert_type(stream.with_schema(schema), tw.Stream[dict[str, Any]])
    assert_type(stream.select("word", more=pc.field("n") + 1), tw.Stream[dict[str, Any]])
    assert_type(stream.group_by("word").aggregate(total=("n", "sum")), tw.Stream[dict[str, Any]])
    stream.select("word").map(half)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- several streams


def test_names_leave_types_as_they_are() -> None:
    """Each form of an operator takes ``name=``, and is what it is without."""
    stream = words(numbers())
    other = stream.flow.input("other words", str)
    minute = tw.TumblingWindows(60)
    assert_type(stream.map(length, name="lengths"), tw.Stream[int])
    assert_type(stream.branch(bool, name="two ways"), Branches[str])
    assert_type(stream.branch(small=bool, name="ways"), NamedBranches[str])
    assert_type(stream.branch(small=bool, name=bool), NamedBranches[str])
    assert_type(stream.count(name="words"), tw.Stream[tuple[str, int]])
    assert_type(stream.count(length, name="by length"), tw.Stream[tuple[int, int]])
    assert_type(stream.aggregate(length, start=int, add=join_up, name="sums"), tw.Stream[tuple[int, int]])
    assert_type(
        stream.aggregate(length, start=int, add=join_up, finish=lambda key, total: "", name="texts"), tw.Stream[str]
    )
    assert_type(stream.accumulate(length, start=int, add=join_up, name="sums"), tw.Stream[tuple[int, int]])
    assert_type(
        stream.accumulate(length, start=int, add=join_up, finish=lambda key, total: "", name="texts"), tw.Stream[str]
    )
    assert_type(stream.window(minute, key=length, at=length, name="w"), tw.types.Windowed[str, list[str]])
    assert_type(stream.window(minute, key=length, at=length, finish=len, name="w"), tw.types.Windowed[str, int])
    assert_type(
        stream.window(minute, key=length, at=length, start=int, add=join_up, name="w"), tw.types.Windowed[str, int]
    )
    assert_type(stream.join(other, length, name="j"), tw.Stream[tuple[str, str]])
    assert_type(stream.join(other, length, how="left", name="j"), tw.Stream[tuple[str, str | None]])
    assert_type(stream.join(other, length, how="right", name="j"), tw.Stream[tuple[str | None, str]])
    assert_type(stream.join(other, length, how="outer", name="j"), tw.Stream[tuple[str | None, str | None]])
    assert_type(stream.join_across_epochs(other, length, name="j"), tw.Stream[tuple[str, str]])
    joined = stream.interval_join(other, length, at=length, within=(0, 5), name="near")
    assert_type(joined.results, tw.Stream[tuple[str, str]])
    with pytest.raises(tw.GraphError):
        stream.map(length, name=7)  # type: ignore[arg-type]


def test_joins() -> None:
    """Pairs have a record of each side; which side may be missing is known."""
    one = numbers()
    other = words(one)
    assert_type(one.join(other, half, length), tw.Stream[tuple[int, str]])
    assert_type(one.join(other, half, length, how="left"), tw.Stream[tuple[int, str | None]])
    assert_type(one.join(other, half, length, how="right"), tw.Stream[tuple[int | None, str]])
    assert_type(one.join(other, half, length, how="outer"), tw.Stream[tuple[int | None, str | None]])
    assert_type(one.join_across_epochs(other, half, length), tw.Stream[tuple[int, str]])
    assert_type(
        one.interval_join(other, half, length, at=half, other_at=length, within=(0, 5)),
        IntervalJoined[tuple[int, str], int, str],
    )
    assert_type(
        one.interval_join(other, half, length, at=half, other_at=length, within=(0, 5)).other_late, tw.Stream[str]
    )
    assert_type(one.cogroup(other, half, length), tw.Stream[tuple[int, list[int], list[str]]])
    assert_type(one.merge(one, by=half), tw.Stream[int])
    one.join(other, length, length)  # type: ignore[arg-type]
    one.join_across_epochs(other, half, half)  # type: ignore[arg-type]
    one.cogroup(other, half, half)  # type: ignore[arg-type]
    one.merge(other, by=half)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- coroutines and results


def test_coroutines() -> None:
    """What is awaited is what comes out."""

    async def look_up(word: str) -> int:
        return len(word)

    async def look_up_all(found: list[str]) -> list[int]:
        return list(map(len, found))

    stream = words(numbers())
    assert_type(stream.map_async(look_up), tw.Stream[int])
    assert_type(stream.map_async(look_up_all, batch_size=9), tw.Stream[int])
    stream.map_async(look_up, batch_size=9)  # type: ignore[arg-type]
    stream.map_async(look_up_all)  # type: ignore[arg-type]
    stream.map(length).map_async(look_up)  # type: ignore[arg-type]
    stream.map_async(length)  # type: ignore[arg-type]


class Lengths:
    """A model."""

    def __call__(self, found: list[str]) -> list[int]:
        """Return the length of each word."""
        return list(map(len, found))


def test_models() -> None:
    """A model is made without arguments; the types of its results are not known."""
    assert_type(words(numbers()).map_actors(Lengths, replicas=2), tw.Stream[Any])
    with pytest.raises(tw.GraphError):
        words(numbers()).map_actors("Lengths", replicas=2)  # type: ignore[arg-type]


class ForgetfulSink(tw.Sink):
    def commit(self, epoch: Time, parts: list[Any]) -> None: ...

    def last_committed(self) -> Time | None: ...


def test_results() -> None:
    """Whoever looks at a stream gets it back."""
    stream = numbers()
    assert_type(stream.probe("probe"), tw.Stream[int])
    assert_type(stream.ignore(), tw.Stream[int])
    assert_type(stream.capture("capture"), tw.Stream[int])
    assert_type(stream.publish("topic"), tw.Stream[int])
    assert_type(stream.capture_to("folder"), tw.Stream[int])
    assert_type(stream.for_each_epoch(lambda time, records: str(records[0])), tw.Stream[str])
    assert_type(stream.write_files("folder"), tw.Stream[WrittenEpoch])
    assert_type(stream.sink(ForgetfulSink()), tw.Stream[Time])
    stream.for_each_epoch(lambda time, records: records.upper())  # type: ignore[attr-defined]


def test_operators_of_ones_own() -> None:
    """What they send only they know; an annotation says it."""

    def build(context: tw.OperatorContext) -> Any:
        return lambda *ports: None

    stream = numbers()
    assert_type(stream.unary(build, name="unary"), tw.Stream[Any])
    assert_type(stream.binary(words(stream), build, name="binary"), tw.Stream[Any])
    said: tw.Stream[str] = stream.unary(build, name="said")
    assert_type(said.map(length), tw.Stream[int])


def test_collections_are_collections() -> None:
    """Whatever their records are; changes are a stream again."""
    pairs = numbers().map(lambda n: (n, n)).as_collection()
    assert_type(numbers().as_collection(), tw.Collection)
    assert_type(pairs.join(pairs).reduce_min().filter(bool), tw.Collection)
    named = numbers().as_collection(columns=["n", "k"])
    assert_type(named.filter(pc.field("n") > 1).select("n", m=pc.field("n") * 2), tw.Collection)
    assert_type(pairs.changes(columns=["n", "m"]), tw.Stream[Any])
    assert_type(pairs.changes(), tw.Stream[Any])
