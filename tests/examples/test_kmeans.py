"""The clusters of the example against k-means in one place."""

import numpy as np
import pytest

import tidewheel as tw
from examples.loops import kmeans
from examples.parts.nearest_centre import CHUNKS, Chunk, Points
from tests.examples.running import captured, epochs, records

CENTRES = 5


def in_one_place(points: Points) -> tuple[Points, list[int]]:
    """Return the centres in the end, and how many points each has, beginning with the first points."""
    centres = points[:CENTRES]
    while True:
        squares = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        nearest = squares.argmin(axis=1)
        means = np.array([points[nearest == number].mean(axis=0) for number in range(CENTRES)])
        if np.abs(means - centres).max() < 1e-9:
            return means, np.bincount(nearest).tolist()
        centres = means


@pytest.mark.parametrize("workers", [1, 2])
def test_clusters_equal_those_of_one_place(workers: int) -> None:
    """Two epochs, each with points of its own: the same centres in the end, and every point with its nearest one."""
    random = np.random.default_rng(3)
    clouds = [random.normal(size=(200, 2)) + random.integers(0, 5, (200, 1)) for _ in range(2)]

    def clusters(flow: tw.Dataflow) -> tw.Stream[tuple[int, Points, Points]]:
        chunks: list[list[Chunk]] = [list(enumerate(np.array_split(cloud, CHUNKS))) for cloud in clouds]
        first = [[cloud[:CENTRES]] for cloud in clouds]
        return kmeans.clusters(flow.source("points", epochs(chunks)), flow.source("first", epochs(first)))

    found = captured(clusters, workers)
    for epoch, cloud in enumerate(clouds):
        means, sizes = in_one_place(cloud)
        points: dict[int, list[Points]] = {}
        for number, place, some in records(found[epoch]):
            np.testing.assert_allclose(place, means[number], atol=1e-7)
            points.setdefault(number, []).append(some)
        assert [len(np.concatenate(points[number])) for number in range(CENTRES)] == sizes
        together = np.concatenate([part for parts in points.values() for part in parts])
        np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(cloud, axis=0))
