"""The source of records that other processes send by the names of job and input, and the operator that counts once."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from tidewheel.batches.batches import Batch, check_batch, is_schema, length
from tidewheel.operators.base.stream_base import check_positive
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Source
from tidewheel.operators.sources.input import RecordCheck, SchemaCheck, check_for
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.inputs.door import Door, Post, Posting
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort

KEPT_S = 24 * 3600.0
"""How long a key counts as known after its posting, in seconds, at least."""

_SWEEP_S = 3600.0
_LOOK_S = 0.5


class Inbox(Source[Any]):
    """The source of an inbox; its batches are of posts.

    Args:
        name: the input's name.
        records: the type of the records, or a `pyarrow.Schema`; None accepts anything.
        capacity_bytes: how much may wait on each worker.

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
        """Return a partition for each worker: its share."""
        return list(range(self._workers))

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[Any] | Pause]:
        """Read the share of a worker; the position is a number of postings."""
        if self._door is None or int(partition) >= self._workers:  # of a run with more workers
            while True:
                yield Pause(_LOOK_S)
        self._door.begin_at(position or 0)
        while True:
            posts = self._door.take(_LOOK_S)
            yield Fetched(posts, self._door.position) if posts else Pause(0)

    def saved(self, partition: Partition, position: int) -> None:
        """Note the postings that a snapshot has."""
        if self._door is not None and int(partition) < self._workers:
            self._door.note_saved(position)


@dataclass(frozen=True, slots=True)
class Decode:
    r"""Makes a checked batch of a posting.

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
        """Return the batch of a posting; raise TypeError or ValueError if it is none for the inbox."""
        if posting.form == "json":
            batch = self._of_lines(posting.body)
        elif posting.form == "arrow":
            batch = _of_stream(posting.body)
        else:
            batch = posting.body
        check_batch(batch)
        return batch if self.check is None or not length(batch) else self.check(batch, 0)

    def _of_lines(self, body: bytes) -> Batch:
        try:
            rows: list[Any] = self.decoder.decode_lines(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            number, reason = _first_wrong(self.decoder, body)
            raise ValueError(f"line {number}: {reason}") from None
        if not is_schema(self.records):
            return rows
        import pyarrow as pa

        return pa.Table.from_pylist(rows, schema=self.records)


def _first_wrong(decoder: msgspec.json.Decoder[Any], body: bytes) -> tuple[int, str]:
    for number, line in enumerate(body.split(b"\n"), start=1):
        if line.strip():
            try:
                decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                return number, str(error)
    return 1, "a value of JSON stands on several lines; each line has one"


def _of_stream(body: bytes) -> Batch:
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no stream of Arrow IPC: {error}") from None
    return table


def route_of(post: Post) -> str | int:
    """Return the key by which a post is exchanged: all posts of a key come to one worker."""
    return post.route


@dataclass(frozen=True, slots=True)
class OnceBuild:
    """The build function of the operator that passes on the records of each key once."""

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
        if post.key in self._seen:
            return False
        self._seen[post.key] = post.at_s
        return True
