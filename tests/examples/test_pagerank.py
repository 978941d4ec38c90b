"""The ranks of the example, which follow a growing web, against the power iteration for each prefix of its links."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import pagerank
from tests.examples.running import captured, columns, epochs

PAGES = 60
FOLLOW = 0.85


def growing_web() -> list[pa.Table]:
    """Return links of four epochs; some pages have none, and pages that have some get others later."""
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
    """After each epoch the changes add up to the ranks for all links so far."""
    web = growing_web()
    found = captured(lambda flow: pagerank.rank_changes(flow.source("links", epochs(web)), PAGES, least=1e-12), workers)
    ranks = np.zeros(PAGES)
    for epoch in range(len(web)):
        for page, change in columns(found[epoch], "page", "change"):
            ranks[page] += change
        expected = power_iteration(pa.concat_tables(web[: epoch + 1]))
        np.testing.assert_allclose(ranks / ranks.sum(), expected, atol=1e-9)
