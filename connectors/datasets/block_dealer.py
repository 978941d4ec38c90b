"""The blocks of a dataset that exist, and the readers that need them; without I/O.

Blocks without rows do not count. Reader ``r`` of ``n`` reads the blocks ``r``, ``r + n`` and so on. A block is kept
until its reader has saved a position after it, so that the reader may begin again at its last saved position.
Invariants:

- A reader that needs a released block has the dataset computed again from its beginning. So does the first reader of
  the next job, if it has no position.
- The next block is computed when a reader asks for it and each open reader has fewer than `MOST_UNREAD` blocks to read.
  Waiting for a slow reader cannot deadlock: epochs never decrease, so the slow reader's epochs end without later
  blocks.
- A block at a saved position begins at the same row as before, and has as many. Otherwise the dataset has changed.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST_UNREAD = 4
"""A reader with this number of computed but unread blocks makes the other readers wait."""


class BlockPosition(NamedTuple):
    """The position of a reader: the number of its block, and how many rows of the block it has read.

    Attributes:
        before: the number of rows in all blocks before this one.
        rows: the number of rows of this block.
    """

    number: int
    row: int
    before: int
    rows: int

    def next_block(self, readers: int) -> int:
        """Return the number of the block with the next row of the reader."""
        return self.number if self.row < self.rows else self.number + readers


class Block(NamedTuple):
    """A block, with its place in the dataset.

    Attributes:
        reference: the Ray object.
        start: the first of its rows in the object.
        before: the number of rows in all blocks before this one.
    """

    reference: Any
    start: int
    rows: int
    before: int


@dataclass(slots=True)
class _Reader:
    """A reader.

    Attributes:
        floor: the number of the first block that is not released.
        asked: the greatest number that it has asked for.
        opening: the id of its opening; None while it is not open.
        position: the last saved position; before the first, the position at which it has begun.
        has_continued: whether it has begun at a position.
    """

    floor: int
    asked: int
    opening: str | None = None
    position: BlockPosition | None = None
    has_continued: bool = False

    @property
    def is_open(self) -> bool:
        return self.opening is not None


@dataclass(slots=True)
class BlockDealer:
    """The blocks of one dataset.

    >>> dealer = BlockDealer()
    >>> dealer.open(0, 1, None, "first")
    True
    >>> dealer.ask(0, 0)
    >>> dealer.wants_more
    True
    >>> dealer.add("reference", 0, 3)
    >>> dealer.answer(0)
    Block(reference='reference', start=0, rows=3, before=0)
    """

    readers: list[_Reader] = field(default_factory=list)
    changed: str = ""
    """How the dataset differs from the dataset of the saved positions; empty if it does not."""
    failure: str = ""
    """Why the dataset cannot be computed; empty if it can."""
    has_ended: bool = False
    rows: int = 0
    computed: int = 0
    """The number of computed blocks, including released ones."""
    _blocks: dict[int, Block] = field(default_factory=dict)
    _saved: dict[int, BlockPosition] = field(default_factory=dict)

    def open(self, reader: int, readers: int, position: BlockPosition | None, opening: str) -> bool:
        """Let a reader begin; return whether the dataset has to be computed again from its beginning.

        ``opening`` is an id that no other opening has.
        """
        first = reader if position is None else position.next_block(readers)
        is_new = len(self.readers) != readers
        if is_new:
            self.readers = [_Reader(number, number - readers) for number in range(readers)]
        own = self.readers[reader]
        is_next_job = position is None and self.computed > 0 and not any(one.is_open for one in self.readers)
        begins_anew = is_new or is_next_job or first < own.floor or bool(self.changed or self.failure)
        if begins_anew:
            self._begin_anew()
        self.readers[reader] = _Reader(first, first - readers, opening, position, position is not None)
        self._drop(reader)
        if position is not None and position.number >= self.computed:
            self._saved[position.number] = position
        return begins_anew

    def _begin_anew(self) -> None:
        for number, one in enumerate(self.readers):
            if not one.is_open:
                self.readers[number] = _Reader(number, number - len(self.readers))
        self._blocks.clear()
        self._saved = {one.position.number: one.position for one in self.readers if one.position is not None}
        self.has_ended, self.rows, self.computed = False, 0, 0
        self.changed = self.failure = ""

    def ask(self, reader: int, number: int) -> None:
        """Note that a reader waits for a block, or will soon."""
        own = self.readers[reader]
        own.asked = max(own.asked, number)

    def answer(self, number: int) -> Block | None:
        """Return a block; None if it is not computed yet, or is released."""
        return self._blocks.get(number)

    def is_over(self, number: int) -> bool:
        """Tell whether the dataset has ended before this block."""
        return self.has_ended and number >= self.computed

    def is_released(self, number: int) -> bool:
        """Tell whether a block was computed and then released."""
        return number < self.computed and number not in self._blocks

    @property
    def wants_more(self) -> bool:
        """Whether the next block is to be computed."""
        if self.has_ended or self.changed or self.failure:
            return False
        if not any(one.is_open and one.asked >= self.computed for one in self.readers):
            return False
        return all(self._unread(number) < MOST_UNREAD for number in range(len(self.readers)) if self._limits(number))

    def _limits(self, reader: int) -> bool:
        """Tell whether the other readers wait for this one.

        In a job that continues, a reader that is not open may have ended.
        """
        return self.readers[reader].is_open or not any(one.has_continued for one in self.readers if one.is_open)

    def _unread(self, reader: int) -> int:
        readers, asked = len(self.readers), self.readers[reader].asked
        last = self.computed - 1 - (self.computed - 1 - reader) % readers
        return max(0, (last - asked) // readers)

    def add(self, reference: Any, start: int, rows: int) -> None:
        """Note the next block."""
        if not rows:
            return
        number, before = self.computed, self.rows
        self.computed += 1
        self.rows += rows
        if (saved := self._saved.pop(number, None)) is not None:
            self._compare(saved, before, rows)
        reader = number % len(self.readers)
        own = self.readers[reader]
        if not self._limits(reader) and self._unread(reader) > MOST_UNREAD:
            own.floor = number + len(self.readers)
            self._drop(reader)
        elif number >= own.floor:
            self._blocks[number] = Block(reference, start, rows, before)

    def end(self) -> None:
        """Note that there are no more blocks."""
        self.has_ended = True
        if self._saved:
            self.changed = f"it has {self.computed} blocks with rows now, and had {max(self._saved) + 1} or more"

    def _compare(self, saved: BlockPosition, before: int, rows: int) -> None:
        if (saved.before, saved.rows) != (before, rows):
            self.changed = (
                f"block {saved.number} has the rows {before:,} to {before + rows:,} now, and had the rows "
                f"{saved.before:,} to {saved.before + saved.rows:,}"
            )

    def saved(self, reader: int, readers: int, position: BlockPosition) -> None:
        """Release a reader's blocks before a saved position.

        Ignore a position of a job with another number of readers.
        """
        if readers != len(self.readers):
            return
        own = self.readers[reader]
        own.position = position
        own.floor = max(own.floor, position.next_block(readers))
        self._drop(reader)

    def _drop(self, reader: int) -> None:
        readers, floor = len(self.readers), self.readers[reader].floor
        for number in [one for one in self._blocks if one < floor and one % readers == reader]:
            del self._blocks[number]

    def close(self, reader: int, readers: int, opening: str) -> None:
        """Note that a reader, or its job, has ended; do nothing if the reader was opened again since."""
        if readers == len(self.readers) and self.readers[reader].opening == opening:
            self.readers[reader].opening = None
