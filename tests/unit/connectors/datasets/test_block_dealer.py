"""Which blocks a dealer keeps, has computed and gives; checked against all blocks of a plain list."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.connectors.datasets.block_dealer import MOST_UNREAD, Block, BlockDealer, BlockPosition

SIZES = st.lists(st.integers(0, 3), max_size=30)


def behind(number: int, block: Block, row: int | None = None) -> BlockPosition:
    """Return the position behind a block, or at a row of it."""
    return BlockPosition(number, block.rows if row is None else row, block.before, block.rows)


class Computed:
    """A dataset of blocks of these sizes, computed as a dealer wants it; the reference of a block is its first row."""

    def __init__(self, dealer: BlockDealer, sizes: list[int]) -> None:
        self.dealer = dealer
        self.sizes = sizes
        self.begins = 0
        self._left: Iterator[tuple[int, int]] = iter(())

    def open(self, reader: int, readers: int, position: BlockPosition | None = None, opening: str = "only") -> None:
        """Let a reader begin."""
        if self.dealer.open(reader, readers, position, opening):
            self.begins += 1
            starts = [sum(self.sizes[:number]) for number in range(len(self.sizes))]
            self._left = iter(list(zip(starts, self.sizes, strict=True)))

    def compute(self) -> None:
        """Compute blocks until none is wanted."""
        while self.dealer.wants_more:
            found = next(self._left, None)
            if found is None:
                self.dealer.end()
            else:
                self.dealer.add(found[0], 0, found[1])

    def read(self, reader: int, number: int) -> Block | None:
        """Ask for a block, and return it if it is there."""
        self.dealer.ask(reader, number)
        self.compute()
        return self.dealer.answer(number)

    def read_there(self, reader: int, number: int) -> Block:
        """Return a block that has to be there."""
        block = self.read(reader, number)
        assert block is not None
        return block


@given(sizes=SIZES, readers=st.integers(1, 4), seed=st.integers(0, 999), saves=st.booleans())
def test_each_row_is_read_once_in_any_order_of_readers(sizes: list[int], readers: int, seed: int, saves: bool) -> None:
    """Over all readers each row comes once; no reader is given blocks that it has to wait for without end."""
    random, dealer = Random(seed), BlockDealer()
    computed = Computed(dealer, sizes)
    found: list[int] = []
    for reader in random.sample(range(readers), readers):
        computed.open(reader, readers)
    left = {reader: reader for reader in range(readers)}
    waited = 0
    while left:
        reader = random.choice(sorted(left))
        number = left[reader]
        block = computed.read(reader, number)
        if block is not None:
            waited = 0
            found += range(block.reference, block.reference + block.rows)
            assert block.before == block.reference
            left[reader] += readers
            if saves:
                dealer.saved(reader, readers, behind(number, block))
        elif dealer.is_over(number):
            dealer.close(reader, readers, "only")
            del left[reader]
        else:
            waited += 1
            assert waited < 1000, "all readers wait"
    assert sorted(found) == list(range(sum(sizes)))
    assert computed.begins == 1
    assert dealer.computed == sum(size > 0 for size in sizes)


def test_a_fast_reader_waits_for_a_slow_one() -> None:
    """Else the blocks of the slow one would fill the object store."""
    computed = Computed(BlockDealer(), [1] * 100)
    computed.open(0, 2)
    computed.open(1, 2)
    number = 0
    while computed.read(0, number) is not None:
        number += 2
    assert computed.dealer.computed == 2 * MOST_UNREAD
    assert computed.read(1, 1) is not None
    assert computed.read(0, number) is not None


def test_blocks_are_computed_only_when_they_are_asked_for() -> None:
    """A job that has paused computes nothing ahead."""
    computed = Computed(BlockDealer(), [1] * 100)
    computed.open(0, 1)
    computed.compute()
    assert computed.dealer.computed == 0
    computed.read(0, 2)
    assert computed.dealer.computed == 3


def test_unsaved_blocks_are_read_again_without_computation() -> None:
    """A job that goes back to a snapshot finds the blocks behind it; others are freed."""
    computed = Computed(BlockDealer(), [2] * 10)
    computed.open(0, 1)
    blocks = {number: computed.read_there(0, number) for number in range(6)}
    position = behind(2, blocks[2], row=1)
    computed.dealer.saved(0, 1, position)
    assert [number for number in range(6) if computed.dealer.is_released(number)] == [0, 1]
    computed.open(0, 1, position)
    assert [computed.read(0, number) for number in range(2, 6)] == [blocks[number] for number in range(2, 6)]
    assert computed.begins == 1


def test_a_released_block_is_computed_again() -> None:
    """A second job of the same dataflow has all rows, also where its readers open one after the other."""
    computed = Computed(BlockDealer(), [1] * 6)
    for _ in range(2):
        found = []
        computed.open(0, 2)
        computed.open(1, 2)
        for number in range(6):
            block = computed.read_there(number % 2, number)
            found.append(block.reference)
            computed.dealer.saved(number % 2, 2, behind(number, block))
        assert computed.read(0, 6) is None
        assert computed.dealer.is_over(6)
        computed.dealer.close(0, 2, "only")
        computed.dealer.close(1, 2, "only")
        assert found == list(range(6))
    assert computed.begins == 2


def test_a_late_close_does_not_close_the_next_opening() -> None:
    """A worker that seemed dead says that it has ended once another one reads in its place."""
    computed = Computed(BlockDealer(), [1] * 6)
    computed.open(0, 1, opening="first")
    computed.open(0, 1, opening="second")
    computed.dealer.close(0, 1, "first")
    assert computed.read(0, 0) is not None
    computed.dealer.close(0, 1, "second")
    assert computed.read(0, 1) is None


def test_the_next_job_reads_one_computation_only() -> None:
    """Rows of the one before, in blocks that its readers have left, may differ: a dataset may depend on chance."""
    computed = Computed(BlockDealer(), [1] * 6)
    computed.open(0, 2)
    computed.open(1, 2)
    computed.dealer.saved(0, 2, behind(0, computed.read_there(0, 0)))
    assert computed.read(1, 1) is not None
    computed.dealer.close(0, 2, "only")
    computed.dealer.close(1, 2, "only")
    computed.open(1, 2)
    assert (computed.begins, computed.dealer.computed) == (2, 0)
    assert computed.read(1, 1) is not None
    computed.open(0, 2)
    assert computed.begins == 2
    assert [computed.read(number % 2, number) is not None for number in range(6)] == [True] * 6


def test_a_new_dealer_leaves_out_what_was_read() -> None:
    """A new program goes on from a snapshot. A reader that had ended does not open; nothing waits for it."""
    computed = Computed(BlockDealer(), [1] * 41)
    computed.open(0, 2, BlockPosition(0, 1, 0, 1))
    found = []
    number = 2
    while (block := computed.read(0, number)) is not None:
        found.append(block.reference)
        number += 2
    assert found == list(range(2, 41, 2))
    assert computed.dealer.is_over(number)


def test_a_late_reader_of_a_job_that_continues_has_its_blocks() -> None:
    """Its blocks were dropped meanwhile, so the dataset is computed again."""
    computed = Computed(BlockDealer(), [1] * 40)
    computed.open(0, 2, BlockPosition(0, 1, 0, 1))
    for number in range(2, 40, 2):
        assert computed.read(0, number) is not None
    computed.open(1, 2, BlockPosition(1, 1, 1, 1))
    assert [computed.read(1, number) is not None for number in range(3, 40, 2)] == [True] * 19
    assert computed.begins == 2


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([2, 3, 2], "block 1 has the rows 2 to 5 now, and had the rows 2 to 4"),
        ([1, 2, 2], "block 1 has the rows 1 to 3 now, and had the rows 2 to 4"),
        ([2], "it has 1 blocks with rows now, and had 2 or more"),
    ],
)
def test_another_dataset_is_told_apart(sizes: list[int], said: str) -> None:
    """A block at a saved position has other rows than it had."""
    computed = Computed(BlockDealer(), sizes)
    computed.open(0, 1, BlockPosition(1, 1, 2, 2))
    computed.read(0, 1)
    computed.read(0, 2)
    assert computed.dealer.changed == said
    assert not computed.dealer.wants_more


def test_a_failed_computation_begins_again_with_the_next_job() -> None:
    """Its cause may be gone."""
    computed = Computed(BlockDealer(), [1, 1])
    computed.open(0, 1)
    computed.dealer.failure = "no such file"
    computed.open(0, 1)
    assert computed.begins == 2
    assert computed.read(0, 0) is not None
