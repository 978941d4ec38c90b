"""The actor that has a dataset computed, block by block, and deals the blocks to the workers of a job.

The actor owns the blocks, so they outlive the workers. It does not read them, and needs no CPU. Ray Data computes only
as many blocks ahead as its limits allow, so a large dataset is never in the object store as a whole.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tidewheel.connectors.datasets.block_dealer import Block, BlockDealer, BlockPosition
from tidewheel.connectors.datasets.failed_computation import said_of
from tidewheel.host.ray_internals import dataset_blocks, use_context_of

_END = (None, 0, 0)


class DealerActor:
    """Deals the blocks of one dataset.

    Args:
        name: the name of the source, for messages.
        dataset: a copy; its settings become the settings of this process.
    """

    def __init__(self, name: str, dataset: Any) -> None:
        use_context_of(dataset)
        logging.getLogger("ray.data").setLevel(logging.WARNING)
        os.environ["RAY_WARN_BLOCKING_GET_INSIDE_ASYNC"] = "0"  # Ray Data blocks threads of its own only
        self._name = name
        self._dataset = dataset
        self._dealer = BlockDealer()
        self._changed = asyncio.Event()
        self._computation: asyncio.Task[None] | None = None

    async def open(self, reader: int, readers: int, position: BlockPosition | None, opening: str) -> None:
        """Let a reader begin; ``opening`` is an id that no other opening has."""
        if self._dealer.open(reader, readers, position, opening):
            if self._computation is not None:
                self._computation.cancel()
            self._computation = asyncio.create_task(self._compute())
        self._tell()

    async def block(self, reader: int, number: int) -> Block | str | None:
        """Return a block once it is computed, None after the last block, or why the dataset cannot be computed."""
        dealer = self._dealer
        dealer.ask(reader, number)
        self._tell()
        await self._until(lambda: bool(self._failed) or dealer.computed > number or dealer.has_ended)
        if self._failed:
            return self._failed
        if dealer.is_released(number):
            said = "was read and saved before, and is gone. Call from_dataset again, and run the job anew"
            return f"block {number} of dataset {self._name!r} {said}"
        return dealer.answer(number)

    async def saved(self, reader: int, readers: int, position: BlockPosition) -> None:
        """Free the blocks before a position."""
        self._dealer.saved(reader, readers, position)

    async def close(self, reader: int, readers: int, opening: str) -> None:
        """Let the other readers go on without one that has ended, unless it was opened again since."""
        self._dealer.close(reader, readers, opening)
        self._tell()

    @property
    def _failed(self) -> str:
        if self._dealer.changed:
            return (
                f"dataset {self._name!r} is not the one of the snapshot: {self._dealer.changed}. A job goes on from a "
                "snapshot only if the dataset has the same blocks again: it must not depend on chance or time, nor "
                "may its data change; override_num_blocks= keeps the number of blocks on another cluster"
            )
        return self._dealer.failure

    async def _compute(self) -> None:
        """Have blocks computed on another thread, as readers ask for them."""
        loop, dealer = asyncio.get_running_loop(), self._dealer
        thread = ThreadPoolExecutor(1, thread_name_prefix="tidewheel-dataset")
        blocks: Iterator[tuple[Any, int, int]] | None = None
        try:
            while True:
                await self._until(lambda: dealer.wants_more)
                if blocks is None:
                    blocks = dataset_blocks(self._dataset)
                reference, start, rows = await loop.run_in_executor(thread, next, blocks, _END)
                if reference is None:
                    dealer.end()
                    break
                dealer.add(reference, start, rows)
                del reference
                self._tell()
        except Exception as error:  # noqa: BLE001 - the readers raise it
            dealer.failure = said_of(error, self._name, dealer.computed)
        finally:
            # A computation that is given up ends with the last reference to its iterator.
            thread.submit(_close, blocks)
            thread.shutdown(wait=False)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()


def _close(blocks: Any) -> None:
    with suppress(Exception):  # the computation has failed, which says more
        if blocks is not None:
            blocks.close()
