"""The benchmark of exchange runs on Ray, and leaves nothing behind; how fast it is, is not tested."""

import pytest

from tests.benchmarks.quick_run import Figures, quick_run

pytestmark = [pytest.mark.ray, pytest.mark.long]

WAYS = ("bare ZeroMQ", "link='socket'", "link='ray'")


@pytest.fixture(scope="module")
def figures(ray_cluster: str) -> Figures:
    """What one quick run has measured."""
    return quick_run("records.exchange", RAY_ADDRESS=ray_cluster)


def test_it_has_records_and_bytes_of_all(figures: Figures) -> None:
    """Lists and Arrow tables over both links, and over bare ZeroMQ."""
    ways = [f"{kind}, {way}" for kind in ("lists of tuples", "Arrow tables") for way in WAYS]
    ways.append("Arrow tables, bare ZeroMQ, each written when it is sent")
    rows = figures["rows"]
    assert set(rows) == {f"{way}: {what}" for way in ways for what in ("records", "bytes")}
    assert all(value > 0 for value in rows.values())


def test_it_says_what_is_expected(figures: Figures) -> None:
    """Arrow tables over sockets are compared with the same bytes over bare ZeroMQ."""
    bare, ours = (figures["rows"][f"Arrow tables, {way}: bytes"] for way in ("bare ZeroMQ", "link='socket'"))
    name = "Arrow tables: bytes a second over bare ZeroMQ and with link='socket', ratio"
    assert figures["expectations"] == {name: pytest.approx(bare / ours)}
