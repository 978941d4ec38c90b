"""Ray objects kept alive while Spark can read them, with Python's weak references for Java's."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from tidewheel.spark_bridge.dataframe_sink import BYTES_BETWEEN_COLLECTIONS, LEASES_BETWEEN_COLLECTIONS, BlockLeases


class Thing:
    """An RDD, or a block: something that can be collected."""


class ReferenceQueue:
    """``java.lang.ref.ReferenceQueue``, as far as it is used."""

    def __init__(self) -> None:
        self.collected: list[WeakReference] = []

    def poll(self) -> "WeakReference | None":
        return self.collected.pop(0) if self.collected else None


class WeakReference:
    """``java.lang.ref.WeakReference``, as far as it is used."""

    asked = 0

    def __init__(self, thing: Thing, queue: ReferenceQueue) -> None:
        self._thing = weakref.ref(thing, lambda _: queue.collected.append(self))

    def refersTo(self, thing: Thing | None) -> bool:  # noqa: N802
        WeakReference.asked += 1
        return self._thing() is thing


COLLECTIONS: list[str] = []
JVM: Any = SimpleNamespace(
    java=SimpleNamespace(
        lang=SimpleNamespace(ref=SimpleNamespace(WeakReference=WeakReference, ReferenceQueue=ReferenceQueue))
    ),
    System=SimpleNamespace(gc=lambda: COLLECTIONS.append("asked for")),
)


def held(leases: BlockLeases, rdd: Thing, size: int = 1) -> "weakref.ref[Thing]":
    """Lease a new block for ``rdd``, and return how to see whether it is still there."""
    block: Any = Thing()
    leases.hold(JVM, rdd, [block], size)
    return weakref.ref(block)


def test_blocks_live_as_long_as_their_rdd() -> None:
    """The blocks of an RDD that Spark can still reach are kept; those of one that it collected go at the next lease."""
    leases = BlockLeases()
    kept, dropped = Thing(), Thing()
    kept_block, dropped_block = held(leases, kept), held(leases, dropped)
    del dropped
    gc.collect()
    assert dropped_block() is not None
    held(leases, kept)
    gc.collect()
    assert dropped_block() is None
    assert kept_block() is not None
    assert len(leases) == 2


def test_the_end_of_the_session_drops_everything() -> None:
    """A session leaves nothing in the object store that belongs to its DataFrames."""
    leases = BlockLeases()
    rdd = Thing()
    block = held(leases, rdd)
    leases.clear()
    gc.collect()
    assert block() is None
    assert len(leases) == 0


def test_a_lease_costs_the_same_among_thousands() -> None:
    """The JVM is asked about each lease only when it has collected one."""
    leases, rdds = BlockLeases(), [Thing() for _ in range(100)]
    WeakReference.asked = 0
    for rdd in rdds:
        held(leases, rdd)
    assert WeakReference.asked == 0
    del rdd, rdds[:50]
    gc.collect()
    leases.prune()
    assert len(leases) == 50
    assert WeakReference.asked == 100


@pytest.mark.parametrize(("size", "most"), [(1, LEASES_BETWEEN_COLLECTIONS), (BYTES_BETWEEN_COLLECTIONS // 8, 8)])
def test_the_jvm_is_asked_to_collect(size: int, most: int) -> None:
    """It does not know how much there is in the object store, so leases that nobody can use any more do not pile up."""
    leases, rdd = BlockLeases(), Thing()
    COLLECTIONS.clear()
    for _ in range(3 * most + 3):
        held(leases, rdd, size)
    assert len(COLLECTIONS) == 3
