"""The ranks of the example, of a web in each epoch, against the power iteration with a matrix."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import tidewheel as tw
from examples.loops import pagerank
from tests.examples.running import captured, columns, epochs

PAGES = 60
FOLLOW = 0.85


def webs() -> list[pa.Table]:
    """Return the links of four epochs; some pages have none."""
    random = np.random.default_rng(7)
    sources = [random.integers(0, PAGES - 10, 50) for _ in range(4)]
    return [pa.table({"source": source, "target": random.integers(0, PAGES, 50)}) for source in sources]


def power_iteration(links: pa.Table) -> npt.NDArray[Any]:
    """Return the rank of each page that is in a link, by a dense matrix; from dead ends visitors go to any page."""
    source, target = links["source"].to_numpy(), links["target"].to_numpy()
    known = np.union1d(source, target)
    matrix = np.zeros((PAGES, PAGES))
    np.add.at(matrix, (target, source), 1)
    degrees = matrix.sum(axis=0)
    start = np.zeros(PAGES)
    start[known] = 1 / len(known)
    matrix = np.where(degrees > 0, matrix / np.maximum(degrees, 1), start[:, None])
    ranks = start
    for _ in range(300):
        ranks = (1 - FOLLOW) * start + FOLLOW * matrix @ ranks
    return ranks


@pytest.mark.parametrize("workers", [1, 2])
def test_ranks_equal_the_power_iteration(workers: int) -> None:
    """In each epoch, for all pages that are in its links."""
    found = captured(lambda flow: pagerank.ranks(flow.source("links", epochs(webs())), 1e-11), workers)
    for epoch, links in enumerate(webs()):
        ranks = np.zeros(PAGES)
        for page, rank in columns(found[epoch], "page", "rank"):
            ranks[page] = rank
        np.testing.assert_allclose(ranks / ranks.sum(), power_iteration(links), atol=1e-9)


def test_the_tolerance_is_for_all_ranks_together() -> None:
    """One more round would change their sum by less than the tolerance, however they lie on workers."""
    (links,) = webs()[:1]
    for tolerance in (1.0, 1e-3):

        def ranked(flow: tw.Dataflow, tolerance: float = tolerance) -> tw.Stream[Any]:
            return pagerank.ranks(flow.source("links", epochs([links])), tolerance)

        found = captured(ranked, 2)
        ranks = dict(columns(found[0], "page", "rank"))
        counts = Counter(links["source"].to_pylist())
        passed = dict.fromkeys(ranks, 1 - FOLLOW)
        for source, target in columns([links], "source", "target"):
            passed[target] += FOLLOW * ranks[source] / counts[source]
        assert sum(abs(passed[page] - ranks[page]) for page in ranks) < tolerance
