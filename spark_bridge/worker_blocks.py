"""Blocks for Spark, made of a capture by the workers that keep it: rows do not pass the driver."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidewheel.progress import TidewheelError
from tidewheel.spark_bridge.block_stream import block_stream, in_blocks
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.record_tables import RecordTables

if TYPE_CHECKING:
    import pyarrow as pa
    from ray import ObjectRef, ObjectRefGenerator

    from tidewheel.runtime.engines.captured import CapturedOnWorkers, Kept

SILENCE_SECONDS = 120.0
"""How long a worker may take to make one block."""


def worker_blocks(captured: "CapturedOnWorkers", rows: RecordTables) -> "list[tuple[ObjectRef[bytes], int]]":
    """Have each worker make blocks of what it keeps, on its node; return them with their sizes, worker by worker.

    Afterwards ``rows`` knows the columns, if it did not and a batch tells them.

    Raises:
        BridgeError: the batches cannot become one DataFrame.
        JobError: the job has ended.
        ray.exceptions.RayError: a worker has died.
    """
    if rows.columns is None:
        told = [_last(_drained(made)) for made in captured.on_workers(_columns, rows.time)]
        rows.columns, rows.origin = next((one for one in told if one is not None), (None, rows.origin))
        if rows.columns is None:
            return []
    blocks: list[tuple[ObjectRef[bytes], int]] = []
    for made in captured.on_workers(_blocks, rows.columns, rows.time, rows.origin):
        *parts, sizes = _drained(made)
        blocks += zip(parts, _last([sizes]), strict=True)
    return blocks


def _columns(kept: "Kept", time: str | None) -> "Iterator[tuple[pa.Schema, str] | None]":
    """On a worker, yield the columns that the first batch tells, and which that is; None if none tells them."""
    rows = RecordTables(None, time)
    next(rows.tables(kept), None)
    yield None if rows.columns is None else (rows.columns, rows.origin)


def _blocks(kept: "Kept", columns: "pa.Schema", time: str | None, origin: str) -> Iterator[bytes | list[int]]:
    """On a worker, yield blocks, and at last how many bytes each has."""
    sizes = []
    for tables in in_blocks(RecordTables(columns, time, origin).tables(kept)):
        stream = block_stream(tables)
        sizes.append(len(stream))
        yield stream
    yield sizes


def _drained(made: "ObjectRefGenerator") -> "list[ObjectRef[Any]]":
    """Return all that a worker yields, once it is there; the last is why not, if it has failed."""
    import ray

    references: list[ObjectRef[Any]] = []
    while not made.is_finished():
        if not ray.wait([made], timeout=SILENCE_SECONDS, fetch_local=False)[0]:
            raise BridgeError(f"a worker has made no block of what it has captured for {SILENCE_SECONDS:.0f} s")
        try:
            references.append(next(made))
        except StopIteration:
            break
    return references


def _last(references: "Sequence[ObjectRef[Any]]") -> Any:
    """Return the last object; raise what a worker has raised."""
    import ray

    try:
        return ray.get(references[-1], timeout=SILENCE_SECONDS)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, TidewheelError) else error from None
