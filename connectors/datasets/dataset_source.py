"""A Ray Dataset as a source of a dataflow.

``from_dataset`` starts an actor that has the dataset computed (`dealer_actor`). The readers of the resulting
``DatasetSource`` ask the actor for references, and read the blocks from the object store.
"""

import logging
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import uuid4

from tidewheel.connectors.datasets.block_dealer import Block, BlockPosition
from tidewheel.connectors.datasets.errors import DatasetError
from tidewheel.connectors.object_blocks.epoch_slices import epoch_slices
from tidewheel.host.extras import check_extra
from tidewheel.host.log_lines import about
from tidewheel.host.ray_cluster import actor_class, connect
from tidewheel.operators.sources.contract import Fetched, Partition, Pause
from tidewheel.operators.sources.inline_source import InlineSource, share_names, share_of
from tidewheel.progress import Time
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset

_LOGGER = logging.getLogger(__name__)
_StreamT_co = TypeVar("_StreamT_co", covariant=True)

BATCH_ROWS = 65_536
"""The greatest number of rows in a batch."""

BLOCKS_AHEAD = 1
"""The number of blocks that a reader asks for before it needs them."""

WARNS_AFTER_S = 30.0
"""A reader that waits for a block logs a warning each time as many seconds have passed."""

_ARRIVES_WITHIN_S = 120.0
"""A reader gives up after as many seconds if a computed block does not arrive from another node."""


class TakesSource(Protocol[_StreamT_co]):
    """The method of a dataflow that ``from_dataset`` needs."""

    def source(self, name: str, source: "DatasetSource", /) -> _StreamT_co:
        """Add ``source`` to the dataflow as ``name``."""


@dataclass(frozen=True)
class DatasetSource(InlineSource[Any]):
    """The rows of a dataset, which the workers of a job fetch block by block.

    Attributes:
        dealer: the actor that owns the blocks.
        time: the column of epochs; None if all rows are of epoch 0.
    """

    name: str
    dealer: Any
    time: str | None = None
    waits_for: str = "blocks of its dataset, which Ray Data computes"

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition for each worker."""
        return share_names(workers)

    def open(self, partition: Partition, position: BlockPosition | None) -> Iterator[Fetched[Any] | Pause]:
        """Read every ``workers``-th block, in batches of at most `BATCH_ROWS` rows.

        Epochs never decrease. While a block is not there, this yields a `Pause`. Raise DatasetError if the dataset
        cannot be computed, has other blocks than before, or has values in the time column that are not epochs.
        """
        return self._read(*share_of(partition), position)

    def saved(self, partition: Partition, position: BlockPosition) -> None:
        """Free the blocks before a position."""
        self.dealer.saved.remote(*share_of(partition), position)

    def _read(self, reader: int, readers: int, position: BlockPosition | None) -> Iterator[Fetched[Any] | Pause]:
        number = reader if position is None else position.next_block(readers)
        row = position.row if position is not None and position.number == number else 0
        asked: deque[Any] = deque()
        epoch: Time = None
        opening = uuid4().hex
        try:
            yield from self._answer(self.dealer.open.remote(reader, readers, position, opening))
            while True:
                while len(asked) <= BLOCKS_AHEAD:
                    asked.append(self.dealer.block.remote(reader, number + len(asked) * readers))
                block = yield from self._block(asked.popleft(), number)
                if block is None:
                    return
                table = yield from self._table(block, number)
                for at, start, rows in self._batches(table, number, epoch):
                    epoch, end = at, start + rows.num_rows
                    if end > row:
                        missing = rows.slice(max(0, row - start))
                        yield Fetched(missing, BlockPosition(number, end, block.before, block.rows), epoch)
                row, number = 0, number + readers
        finally:
            with suppress(Exception):  # the process has left its cluster
                self.dealer.close.remote(reader, readers, opening)

    def _block(self, answer: Any, number: int) -> Generator[Pause, None, Block | None]:
        found = yield from self._answer(answer, f"block {number}")
        if isinstance(found, str):
            raise DatasetError(found)
        block: Block | None = found
        return block

    def _answer(self, answer: Any, awaited: str = "") -> Generator[Pause, None, Any]:
        """Wait for an answer of the dealer, as long as the computation of a block takes."""
        from ray.exceptions import GetTimeoutError, RayActorError

        from tidewheel.connectors.object_blocks.arrival import arrival

        waited_s = 0.0
        while True:
            try:
                return (yield from arrival(answer, WARNS_AFTER_S))
            except GetTimeoutError:
                waited_s += WARNS_AFTER_S
                _LOGGER.warning(*self._still_waiting(awaited, waited_s), extra=about(operator=self.name))
            except RayActorError as error:
                raise DatasetError(
                    f"dataset {self.name!r} cannot be read: the process that has it computed is gone, with all blocks. "
                    f"Call from_dataset again, and run the job anew: {error}"
                ) from error

    def _still_waiting(self, awaited: str, waited_s: float) -> tuple[Any, ...]:
        import ray

        free, all_of = (resources.get("CPU", 0.0) for resources in (ray.available_resources(), ray.cluster_resources()))
        said = "source %r has waited %.0f s for %s of its dataset; %g of the %g CPUs of the cluster are free"
        if free < 1:
            said += (
                ". Ray Data computes blocks in tasks, which need one. Those of the dataset have them all, or other "
                "programs, or workers with RuntimeConfig(resources={'CPU': ...})"
            )
        return said, self.name, waited_s, awaited or "the actor", free, all_of

    def _table(self, block: Block, number: int) -> "Generator[Pause, None, pa.Table]":
        from ray.exceptions import RayError

        from tidewheel.connectors.object_blocks.arrival import arrival

        try:
            found = yield from arrival(block.reference, _ARRIVES_WITHIN_S)
        except RayError as error:
            raise DatasetError(
                f"block {number} of dataset {self.name!r} cannot be read: {error}. A block is lost with its Ray node: "
                "call from_dataset again, and run the job anew"
            ) from error
        return table_of(found).slice(block.start, block.rows)

    def _batches(self, table: "pa.Table", number: int, epoch: Time) -> "Iterator[tuple[Time, int, pa.Table]]":
        """Yield each batch of a block: its epoch, the number of its first row, and its rows.

        ``epoch`` is the last epoch of the previous block; an earlier epoch in this block is an error.
        """
        start = 0
        for later, rows in self._epochs(table, number):
            if epoch is not None and later < epoch:
                raise DatasetError(
                    f"block {number} of dataset {self.name!r} goes back in column {self.time!r}, from epoch {epoch} to "
                    f"{later}: sort the dataset by it, dataset.sort({self.time!r})"
                )
            epoch = later
            for first in range(0, rows.num_rows, BATCH_ROWS):
                batch = rows.slice(first, BATCH_ROWS)
                yield epoch, start, batch
                start += batch.num_rows

    def _epochs(self, table: "pa.Table", number: int) -> "Iterator[tuple[int, pa.Table]]":
        if self.time is None:
            yield 0, table
            return
        import pyarrow as pa

        where = f"block {number} of dataset {self.name!r}"
        if self.time not in table.column_names:
            raise DatasetError(f"{where} has no column {self.time!r} for time=; it has {', '.join(table.column_names)}")
        column = table.column(self.time)
        if not pa.types.is_integer(column.type) or column.null_count:
            found = f"has {column.null_count} nulls" if pa.types.is_integer(column.type) else f"is {column.type}"
            raise DatasetError(
                f"column {self.time!r} of {where} {found}, and an epoch is an integer: drop or cast them"
            )
        for epoch, rows in epoch_slices(table, self.time):
            if epoch < 0:
                raise DatasetError(f"column {self.time!r} of {where} has the epoch {epoch}; time starts at 0")
            yield epoch, rows


def table_of(block: Any) -> "pa.Table":
    """Return a block as an Arrow table without metadata; a pandas block is copied."""
    import pyarrow as pa

    if not isinstance(block, pa.Table):
        from ray.data.block import BlockAccessor

        block = BlockAccessor.for_block(block).to_arrow()
    return block.replace_schema_metadata()


def from_dataset(
    flow: TakesSource[_StreamT_co], name: str, dataset: "Dataset", *, time: str | None = None
) -> _StreamT_co:
    """Return a stream of the rows of a Ray Dataset as Arrow tables, each of one epoch; needs the extra ``data``.

    Ray Data computes the dataset while the job reads it, once for each job, however many workers read. The workers
    take the blocks in turn from Ray's object store; no row passes the driver. Ray Data's tasks need a CPU of the
    cluster; workers reserve CPUs only if `RuntimeConfig` says so. A worker that waits long for a block warns, with the
    number of free CPUs.

    Rows have tensors as NumPy arrays, dicts as dicts, and other Python objects as themselves. If the dataset's rows are
    not dicts, Ray Data puts them into a column ``item`` or ``data``.

    With snapshots, blocks are kept until a snapshot has their rows. A job that goes on from a snapshot reads the
    remaining kept blocks. In a new process it has the dataset computed again, and skips the blocks that the snapshot
    has. So the dataset must have the same rows in the same blocks each time: no randomness, no time of day, no changed
    files. A changed number of rows is an error; changed values are not noticed.

    Args:
        flow: the dataflow to add the source to. It keeps the blocks; they are freed with it.
        name: the name of the source.
        dataset: a dataset, computed or not.
        time: the column of epochs: integers, not null and not negative. The dataset is sorted by it, as by
            ``dataset.sort(time)``. By default every row is at time 0.

    Raises:
        DatasetError: ``dataset`` is not a Ray Dataset, or the cluster has no CPU. The job fails with it if the dataset
            cannot be computed, has decreasing or invalid epochs, or differs from the dataset of the snapshot.
    """
    check_extra("data", "from_dataset()", DatasetError)
    connect(JobError)
    _require_dataset(dataset, name)
    from tidewheel.connectors.datasets.dealer_actor import DealerActor

    dealer = actor_class(DealerActor).options(num_cpus=0).remote(name, dataset)
    return flow.source(name, DatasetSource(name, dealer, time))


def _require_dataset(dataset: Any, name: str) -> None:
    import ray
    from ray.data import Dataset

    if not isinstance(dataset, Dataset):
        kind = f"{type(dataset).__module__}.{type(dataset).__qualname__}"
        raise DatasetError(f"{name!r} is a {kind}, not a ray.data.Dataset")
    if not ray.cluster_resources().get("CPU"):
        raise DatasetError(
            f"dataset {name!r} cannot be computed: Ray Data's tasks need a CPU, and no node of the cluster has one. "
            "Start Ray with some, ray.init(num_cpus=...), or add a node"
        )
