"""The benchmark of empty rounds runs on Ray, and leaves nothing behind; how fast it is, is not tested."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = [pytest.mark.ray, pytest.mark.long]


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured."""
    return quick_run("loops.barrier", RAY_ADDRESS=ray_cluster)


def test_it_has_median_and_p99_of_all(figures: Figures) -> None:
    """Two and four workers over both links, the floor for each, and a Ray round trip."""
    names = ["a Ray actor round trip"]
    for workers in (2, 4):
        names += [f"{workers} workers, link='{link}': a round" for link in ("socket", "ray")]
        names.append(f"{workers} processes, bare ZeroMQ: a round")
    rows = figures["rows"]
    assert set(rows) == {f"{name}, {figure}" for name in names for figure in ("median", "p99")}
    assert all(0 < rows[f"{name}, median"] <= rows[f"{name}, p99"] for name in names)


def test_it_says_what_is_expected(figures: Figures) -> None:
    """The median round over sockets is compared with the floor, and that of two workers with a Ray round trip."""
    rows = figures["rows"]
    ours = {workers: rows[f"{workers} workers, link='socket': a round, median"] for workers in (2, 4)}
    floor = {workers: rows[f"{workers} processes, bare ZeroMQ: a round, median"] for workers in (2, 4)}
    assert figures["expectations"] == {
        "2 workers, link='socket': median round over the floor's, ratio": pytest.approx(ours[2] / floor[2]),
        "4 workers, link='socket': median round over the floor's, ratio": pytest.approx(ours[4] / floor[4]),
        "2 workers, link='socket': median round over a Ray actor round trip, ratio": pytest.approx(
            ours[2] / rows["a Ray actor round trip, median"]
        ),
    }
