"""Points in chunks that stay where they are, and centres that move to the middle of the points nearest to them."""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

CHUNKS = 8
"""As many workers, at most, have points."""

Points: TypeAlias = npt.NDArray[np.float64]
"""(x, y) of each."""
Chunk: TypeAlias = tuple[int, Points]
"""Its number, from 0 to `CHUNKS`, and its points."""


class Centres(NamedTuple):
    """The centres for a chunk of points, and by how much the one has moved that moved most."""

    chunk: int
    places: Points
    moved: float


def split(chunk: Chunk, centres: Centres) -> list[Points]:
    """Return the points nearest to each centre."""
    squares = np.square(chunk[1][:, None, :] - centres.places[None, :, :]).sum(axis=2)
    return [chunk[1][squares.argmin(axis=1) == number] for number in range(len(centres.places))]


def sums(chunk: Chunk, centres: Centres) -> Points:
    """Return for each centre the sum of the points nearest to it, and how many these are."""
    return np.array([[*some.sum(axis=0), len(some)] for some in split(chunk, centres)])


def middles(before: Points, total: Points) -> list[Centres]:
    """Return the centres of the next round, for each chunk."""
    places = np.where(total[:, 2:] > 0, total[:, :2] / np.maximum(1, total[:, 2:]), before)
    moved = float(np.linalg.norm(places - before, axis=1).max())
    return [Centres(chunk, places, moved) for chunk in range(CHUNKS)]
