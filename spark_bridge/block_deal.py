"""The deal of a DataFrame's blocks to workers: each reads blocks of its own node, as far as shares stay even.

A block of another node's executor crosses the network; the place of blocks does not change how many a worker reads.
"""

from collections import Counter
from collections.abc import Iterator, Sequence


def deal(places: Sequence[str], nodes: Sequence[str], *, in_step: bool) -> list[list[int]]:
    """Return the numbers of each worker's blocks, ascending.

    Each block occurs once, and no worker has more than one block more than another. Among such deals, `in_step` if
    asked for, none has more blocks on the nodes of their readers. The result depends only on the arguments. If all
    workers are on one node, or no block is known to be near, that is every ``len(nodes)``-th block. O(blocks +
    workers).

    Args:
        places: the node of each block, empty if unknown.
        nodes: the node of each worker.
        in_step: whether each worker's first block is among the first ``len(nodes)``, its second among the next, and so
            on, so that workers that read in order of time stay close in time.

    >>> deal(["a", "b", "b", "a", "b"], ["a", "b"], in_step=False)
    [[0, 3], [1, 2, 4]]
    >>> deal(["a", "b", "b", "a", "b"], ["a", "b"], in_step=True)
    [[0, 3], [1, 2, 4]]
    >>> deal(["a", "a", "b", "b"], ["a", "b"], in_step=True)
    [[0, 3], [1, 2]]
    >>> deal(["a", "a", "b", "b"], ["a", "b"], in_step=False)
    [[0, 1], [2, 3]]
    >>> deal(["", "", "c"], ["a", "b"], in_step=False)
    [[0, 2], [1]]
    """
    workers, blocks = len(nodes), len(places)
    if len(set(nodes)) == 1:
        return [list(range(worker, blocks, workers)) for worker in range(workers)]
    hands: list[list[int]] = [[] for _ in nodes]
    window = workers if in_step else max(1, blocks)
    for start in range(0, blocks, window):
        for number, worker in enumerate(_readers(places[start : start + window], nodes), start):
            hands[worker].append(number)
    return hands


def _readers(places: Sequence[str], nodes: Sequence[str]) -> list[int]:
    """Return the reader of each block of one window; all workers get the same number, some one more.

    A node's blocks go to its workers in turn while these have room: for the same number each, and for one more as often
    as blocks are left over. Which workers take those makes no difference to the number of near blocks. Blocks that find
    no room go to any workers with room.
    """
    share, more = divmod(len(places), len(nodes))
    local: dict[str, list[int]] = {}
    for worker, node in enumerate(nodes):
        if node:
            local.setdefault(node, []).append(worker)
    readers: list[int] = []
    seen, taken = Counter[str](), Counter[int]()
    for place in places:
        near, reader = local.get(place, ()), -1
        if near:
            before, turn = divmod(seen[place], len(near))
            seen[place] += 1
            if before < share or (before == share and more):
                more -= before == share
                reader = near[turn]
                taken[reader] += 1
        readers.append(reader)
    room = _room(share, [taken[worker] for worker in range(len(nodes))])
    return [reader if reader >= 0 else next(room) for reader in readers]


def _room(share: int, taken: Sequence[int]) -> Iterator[int]:
    for dealt in range(share + 1):
        yield from (worker for worker, already in enumerate(taken) if already <= dealt)
