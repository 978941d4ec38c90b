"""The source of records that other processes send by names of job and input, and the operator that drops repeats."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from tidewheel.batches.batches import Batch, check_batch, is_schema, length
from tidewheel.operators.base.stream_base import check_positive
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Source
from tidewheel.operators.sources.input import RecordCheck, SchemaCheck, check_for
from tidewheel.operators.sources.posted_rows import WrongRowError, table_of_rows
from tidewheel.operators.sources.posted_stream import table_of_stream
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.inputs.door import Door, Post, Posting
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort

KEPT_S = 24 * 3600.0
"""The seconds for which a key is remembered after its posting."""

_SWEEP_S = 3600.0
_LOOK_S = 0.5

_DEEPEST = 100
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]')
"""A bracket of JSON, or a JSON string, which may contain brackets."""


class Inbox(Source[Any]):
    """The source of an inbox; its batches consist of posts.

    Args:
        name: the input's name.
        records: the type of the records, or a `pyarrow.Schema`; None accepts anything.
        capacity_bytes: the limit, in bytes, of records that wait on each worker.

    Raises:
        GraphError: an argument is wrong.
    """

    look_every_s = 3600.0  # it lists again in each run, as there may be another number of workers
    endless = True

    def __init__(self, name: str, records: Any, capacity_bytes: int) -> None:
        check_positive(f"inbox {name!r}", "capacity_bytes", capacity_bytes)
        check_for(name, records)
        self._records = records
        self._capacity_bytes = capacity_bytes
        self._workers = 1
        self._door: Door | None = None

    def _on_worker(self, context: OperatorContext, *, reads: bool) -> "Inbox":
        here = copy.copy(self)
        here._workers = context.workers
        if reads:
            decode = Decode.of(context.name, self._records)
            route = next(number for number in count() if owner_of(number, context.workers) == context.worker)
            here._door = host_of(context).doors[context.name] = Door(decode, route, self._capacity_bytes)
            context.on_close(here._door.close)
        return here

    def partitions(self) -> list[Partition]:
        """Return one partition, a share, for each worker."""
        return list(range(self._workers))

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[Any] | Pause]:
        """Read the share of a worker; the position is the number of postings read."""
        if self._door is None or int(partition) >= self._workers:  # of a run with more workers
            while True:
                yield Pause(_LOOK_S)
        self._door.begin_at(position or 0)
        while True:
            posts = self._door.take(_LOOK_S)
            yield Fetched(posts, self._door.position) if posts else Pause(0)

    def saved(self, partition: Partition, position: int) -> None:
        """Note that a snapshot has the postings before ``position``."""
        if self._door is not None and int(partition) < self._workers:
            self._door.note_saved(position)


@dataclass(frozen=True, slots=True)
class Decode:
    r"""Decodes a posting to a checked batch.

    >>> decode = Decode.of("payments", dict[str, int])
    >>> decode(Posting(b'{"sum": 20}\n{"sum": 30}\n', form="json"))
    [{'sum': 20}, {'sum': 30}]
    >>> decode(Posting(b'{"sum": 20}\n{"sum": "x"}\n', form="json"))
    Traceback (most recent call last):
    ...
    ValueError: line 2: Expected `int`, got `str` - at `$[...]`
    """

    records: Any
    check: RecordCheck | SchemaCheck | None
    decoder: msgspec.json.Decoder[Any]

    @classmethod
    def of(cls, name: str, records: Any) -> "Decode":
        """Return the decoder of the inbox ``name`` for a type of records, a schema, or None."""
        check = check_for(name, records)
        try:
            decoder = msgspec.json.Decoder(Any if records is None or is_schema(records) else records)
        except TypeError:  # JSON has no such records
            decoder = msgspec.json.Decoder(Any)
        return cls(records, check, decoder)

    def __call__(self, posting: Posting) -> Batch:
        """Return the batch of a posting; raise TypeError or ValueError if it does not fit the inbox."""
        if posting.form == "json":
            batch = self._of_lines(posting.body)
        elif posting.form == "arrow":
            if isinstance(self.check, RecordCheck):
                raise ValueError(
                    f"the records of this inbox have the type {self.check.shown}, and a stream of Arrow has columns: "
                    "send lines of JSON, or give the inbox a pyarrow.Schema"
                )
            batch = table_of_stream(posting.body)
        else:
            batch = posting.body
        check_batch(batch)
        return batch if self.check is None or not length(batch) else self.check(batch, 0)

    def _of_lines(self, body: bytes) -> Batch:
        try:
            rows: list[Any] = self.decoder.decode_lines(body)
        except Exception:  # noqa: BLE001  a user's class may raise any
            number, reason = _first_wrong(self.decoder, body)
            raise ValueError(f"line {number}: {reason}") from None
        if (deep := _first_deep(body, len(rows))) is not None:
            raise ValueError(f"line {deep}: lists and objects are nested more than {_DEEPEST} deep")
        if not is_schema(self.records):
            return rows
        try:
            return table_of_rows(rows, self.records)
        except WrongRowError as error:
            raise ValueError(f"line {_line_of(error.row, body, len(rows))}: {error}") from None


def _first_wrong(decoder: msgspec.json.Decoder[Any], body: bytes) -> tuple[int, str]:
    for number, line in enumerate(body.split(b"\n"), start=1):
        if line.strip():
            try:
                decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                return number, str(error)
            except RecursionError:
                return number, f"lists and objects are nested more than {_DEEPEST} deep"
            except Exception as error:  # noqa: BLE001  a user's class may raise any
                return number, f"{type(error).__name__}: {error}"
    return 1, "a value of JSON stands on several lines; each line has one"


def _line_of(value: int, body: bytes, values: int) -> int:
    """Return the line, counted from 1, of a value, counted from 0; 1 if a value spans several lines."""
    numbers = [number for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
    return numbers[value] if len(numbers) == values else 1


def _first_deep(body: bytes, values: int) -> int | None:
    """Return the number of the first line with a value nested too deeply for pickle; None if there is none."""
    lines = body.split(b"\n")
    if sum(1 for line in lines if line.strip()) != values:  # a value stands on several lines
        lines = [body]
    for number, line in enumerate(lines, start=1):
        if line.count(b"[") + line.count(b"{") > _DEEPEST and _depth(line) > _DEEPEST:
            return number
    return None


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for text in _BRACKET.findall(line):
        depth += (text in {b"[", b"{"}) - (text in {b"]", b"}"})
        deepest = max(deepest, depth)
    return deepest


def route_of(post: Post) -> str | int:
    """Return the key by which a post is exchanged: all posts with one key go to one worker."""
    return post.route


@dataclass(frozen=True, slots=True)
class OnceBuild:
    """The build function of the operator that passes the first posting with each key and drops repeats."""

    kept_s: float = KEPT_S

    def __call__(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function."""
        return _Once(context, self.kept_s).schedule


class _Once:
    def __init__(self, context: OperatorContext, kept_s: float) -> None:
        self._seen: dict[Any, float] = context.keyed_state("keys")
        self._kept_s = kept_s
        self._swept_s = 0.0

    def schedule(self, input: InputPort, output: OutputPort) -> None:
        for token, posts in input:
            rows: list[Any] = []
            for post in filter(self._is_new, posts):
                if isinstance(post.batch, list):
                    rows += post.batch
                elif length(post.batch):
                    output.send(token, post.batch)
            if rows:
                output.send(token, rows)

    def _is_new(self, post: Post) -> bool:
        if post.key is None:
            return True
        if post.at_s >= self._swept_s + _SWEEP_S:
            self._swept_s = post.at_s
            for key in [key for key, at_s in self._seen.items() if at_s < post.at_s - self._kept_s]:
                del self._seen[key]
        seen_s = self._seen.get(post.key)
        if seen_s is not None and seen_s >= post.at_s - self._kept_s:
            return False
        self._seen[post.key] = post.at_s
        return True
