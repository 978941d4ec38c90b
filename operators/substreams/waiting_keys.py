"""The queues of batches and ends that wait until their key may be used again, and how queues are joined.

All workers of an input have the same last ends of a key. So queues are joined from the back: a batch stays before the
end that followed it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidewheel.batches.batches import Batch
from tidewheel.progress import Time


@dataclass(slots=True)
class Waiting:
    """A waiting batch or, if ``batch`` is None, a waiting end."""

    time: Time
    batch: Batch | None


WaitingKeys: TypeAlias = dict[Any, deque[Waiting]]
"""The waiting batches and ends of each key, in order."""


def joined(lanes: Sequence[WaitingKeys]) -> WaitingKeys:
    """Join the queues of several workers: each end occurs once, and every batch is between the same ends as before."""
    keys = dict.fromkeys(key for lane in lanes for key in lane)
    return {key: _joined([_pieces(lane.get(key, ())) for lane in lanes]) for key in keys}


def _joined(lanes: Sequence[Sequence[list[Waiting]]]) -> deque[Waiting]:
    longest = max(lanes, key=len)
    made: deque[Waiting] = deque()
    for place in range(len(longest), 0, -1):
        made.extend(one for lane in lanes if len(lane) >= place for one in lane[-place] if one.batch is not None)
        made.extend(one for one in longest[-place] if one.batch is None)
    return made


def _pieces(queue: Sequence[Waiting] | deque[Waiting]) -> list[list[Waiting]]:
    pieces: list[list[Waiting]] = [[]]
    for one in queue:
        pieces[-1].append(one)
        if one.batch is None:
            pieces.append([])
    return pieces
