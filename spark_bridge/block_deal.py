"""The assignment of a DataFrame's blocks to workers: equal shares, with as many blocks of their own nodes as possible.

A block from an executor on another node crosses the network. The places of blocks never change how many a worker reads.
"""

from collections import Counter
from collections.abc import Iterator, Sequence


def deal(places: Sequence[str], nodes: Sequence[str], *, in_step: bool) -> list[list[int]]:
    """Return the numbers of the blocks that each worker reads, ascending.

    Each block occurs once, and workers' numbers of blocks differ by at most one. Within these limits, and that of
    ``in_step``, as many blocks as possible are on the nodes of their readers. The result depends only on the arguments.
    If all workers are on one node, or no block's node is known, a worker reads every ``len(nodes)``-th block. O(blocks
    + workers).

    Args:
        places: the node of each block, empty if unknown.
        nodes: the node of each worker.
        in_step: True if each worker's first block must be among the first ``len(nodes)`` blocks, its second among the
            next ``len(nodes)``, and so on. So workers that read in order of time stay close in time.

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
    """Return the reader of each block in one window of blocks; some workers get one block more than the others.

    The blocks of a node go to its workers in turn, as long as these have room. Each worker has room for the same number
    of blocks. If the number of blocks is not divisible, some workers have room for one more; which ones does not change
    the number of blocks on their readers' nodes. Blocks that find no room go to any workers with room.
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
