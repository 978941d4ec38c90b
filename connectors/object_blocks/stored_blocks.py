"""Batches of a dataflow as blocks in Ray's object store, which this process owns.

Each worker of a running job makes blocks of its captured batches on its own node. The blocks outlive the worker.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tidewheel.connectors.object_blocks.record_tables import RecordTables, TableReader
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.messages.events import Batch
from tidewheel.runtime.engines.captured import CapturedOnWorkers
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa
    from ray import ObjectRef, ObjectRefGenerator

    from tidewheel.runtime.engines.captured import Kept

_logger = logging.getLogger(__name__)

BLOCK_BYTES = 16 * 2**20
"""The size in bytes at which a block is complete and the next begins."""

SILENCE_SECONDS = 120.0
"""A worker that makes no block for as many seconds is an error."""

MakeBlock: TypeAlias = "Callable[[Sequence[pa.Table]], Any]"
"""Makes a block from one or more tables of the same schema."""


class StoredBlock(NamedTuple):
    """A block in the object store.

    Attributes:
        size: the bytes of its tables.
    """

    reference: "ObjectRef[Any]"
    size: int


def stored_blocks(source: Any, rows: RecordTables, make: MakeBlock) -> list[StoredBlock]:
    """Read ``source`` to its end and store its rows; return the blocks, none of them empty.

    Afterwards ``rows.columns`` is set, unless there is neither a batch nor a schema.

    Args:
        source: the result of `Job.captured`, an iterable of messages with ``.time`` and ``.batch``, or an object whose
            ``epochs()`` yields epochs with ``.time`` and ``.batches``.
        rows: makes tables of the batches.
        make: makes a block, here or on a worker.

    Raises:
        TidewheelError: an error of the reader's type. The batches cannot become tables of one schema, or a worker makes
            no block for two minutes.
    """
    blocks = _made_by_workers(source, rows, make) if isinstance(source, CapturedOnWorkers) else None
    if blocks is None:
        blocks = [put_block(tables, make) for tables in in_blocks(rows.tables(messages(source, rows.reader)))]
    return blocks


def put_block(tables: "Sequence[pa.Table]", make: MakeBlock) -> StoredBlock:
    """Store a block of one or more tables of the same schema."""
    import ray

    return StoredBlock(ray.put(make(tables)), sum(table.nbytes for table in tables))


def in_blocks(tables: "Iterable[pa.Table]") -> "Iterator[list[pa.Table]]":
    """Yield ``tables`` in groups of about ``BLOCK_BYTES``; cut up large tables, leave out empty ones."""
    block: list[pa.Table] = []
    size = 0
    for table in tables:
        rows = max(1, table.num_rows * BLOCK_BYTES // max(1, table.nbytes))
        for start in range(0, table.num_rows, rows):
            part = table.slice(start, rows)
            block.append(part)
            size += part.nbytes
            if size >= BLOCK_BYTES:
                yield block
                block, size = [], 0
    if block:
        yield block


def known_columns(rows: RecordTables) -> "pa.Schema":
    """Return the columns of all tables; raise the reader's error if there is neither a batch nor a schema."""
    if rows.schema is None:
        said = f"there is no batch to take the columns of the {rows.reader.whole} from: pass schema= to"
        raise rows.reader.error(f"{said} {rows.reader.call}")
    return rows.schema


def messages(source: Any, reader: TableReader) -> Iterator[tuple[Any, Any]]:
    """Yield the time and the records of each batch; raise the reader's error for other items."""
    items: Iterable[Any] = source.epochs() if callable(getattr(source, "epochs", None)) else source
    for item in items:
        if hasattr(item, "batches"):
            yield from ((item.time, batch.data if isinstance(batch, Batch) else batch) for batch in item.batches)
        elif hasattr(item, "batch"):
            yield item.time, item.batch
        else:
            raise reader.error(
                f"{reader.call} was given a {type(item).__qualname__}, not a message with .time and .batch "
                "or an epoch with .time and .batches"
            )


def _made_by_workers(captured: CapturedOnWorkers, rows: RecordTables, make: MakeBlock) -> list[StoredBlock] | None:
    """Have each worker make blocks of its captured batches, on its node; return None if the workers are gone.

    The blocks are in the order of the workers.
    """
    import ray

    blocks: list[StoredBlock] = []
    try:
        if rows.columns is None:
            made = captured.on_workers(_told_columns, rows.reader, rows.time)
            told = [_last(_drained(one, rows.reader)) for one in made]
            rows.columns, rows.origin = next((one for one in told if one is not None), (None, rows.origin))
        if rows.columns is not None:
            for one in captured.on_workers(_blocks, rows.reader, rows.columns, rows.time, rows.origin, make):
                *parts, sizes = _drained(one, rows.reader)
                blocks += [StoredBlock(*pair) for pair in zip(parts, _last([sizes]), strict=True)]
    except (JobError, ray.exceptions.RayActorError) as error:
        said = "rows for %s pass the driver, as the workers that captured them are gone: %s"
        _logger.warning(said, rows.reader.name, error)
        return None
    return blocks


def _told_columns(kept: "Kept", reader: TableReader, time: str | None) -> "Iterator[tuple[pa.Schema, str] | None]":
    rows = RecordTables(reader, None, time)
    next(rows.tables(kept), None)
    yield None if rows.columns is None else (rows.columns, rows.origin)


def _blocks(
    kept: "Kept", reader: TableReader, columns: "pa.Schema", time: str | None, origin: str, make: MakeBlock
) -> Iterator[Any]:
    sizes = []
    for tables in in_blocks(RecordTables(reader, columns, time, origin).tables(kept)):
        yield make(tables)
        sizes.append(sum(table.nbytes for table in tables))
    yield sizes


def _drained(made: "ObjectRefGenerator", reader: TableReader) -> "list[ObjectRef[Any]]":
    import ray

    references: list[ObjectRef[Any]] = []
    while not made.is_finished():
        if not ray.wait([made], timeout=SILENCE_SECONDS, fetch_local=False)[0]:
            raise reader.error(f"a worker has made no block of what it has captured for {SILENCE_SECONDS:.0f} s")
        try:
            references.append(next(made))
        except StopIteration:
            break
    return references


def _last(references: "Sequence[ObjectRef[Any]]") -> Any:
    import ray

    try:
        return ray.get(references[-1], timeout=SILENCE_SECONDS)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, TidewheelError) else error from None
