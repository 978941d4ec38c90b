"""The deadlocks of the example against following each transfer in one place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.loops import deadlocks
from examples.loops.deadlocks import Lock
from tests.examples.running import captured, epochs, records

_next = st.lists(st.none() | st.integers(0, 11), min_size=1, max_size=12)


def locks_of(waits: dict[int, int]) -> list[Lock]:
    """Return a lock table by which transfers wait like this: each of them holds an account of its own."""
    transfers = {*waits, *waits.values()}
    holding = [Lock(transfer, 100 + transfer, held=True) for transfer in transfers]
    return holding + [Lock(waiting, 100 + holder, held=False) for waiting, holder in waits.items()]


def in_one_place(waits: dict[int, int]) -> set[tuple[int, ...]]:
    """Return the circles, from their least transfer on."""
    found = set()
    for transfer in waits:
        way = [transfer]
        while way[-1] in waits and waits[way[-1]] not in way:
            way.append(waits[way[-1]])
        if waits.get(way[-1]) == transfer == min(way):
            found.add(tuple(way))
    return found


def check(epochs_of: list[dict[int, int]], workers: int) -> None:
    """Compare the circles of each epoch; each comes out once."""
    batches: list[Any] = [locks_of(waits) for waits in epochs_of]
    found = captured(lambda flow: deadlocks.deadlocks(flow.source("locks", epochs(batches))), workers)
    for epoch, waits in enumerate(epochs_of):
        assert sorted(records(found.get(epoch, []))) == sorted(in_one_place(waits)), f"epoch {epoch}"


@pytest.mark.parametrize("workers", [1, 2])
@given(graphs=st.lists(_next, min_size=1, max_size=3))
def test_circles_of_any_graphs(workers: int, graphs: list[list[int | None]]) -> None:
    """Each epoch by itself: circles with ways that lead into them, ways that end, circles side by side."""
    waits = [{t: to for t, to in enumerate(graph) if to is not None and to != t} for graph in graphs]
    check(waits, workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_long_circle(workers: int) -> None:
    """A circle of two hundred transfers, and a way of fifty into it."""
    circle = {number: (number + 1) % 200 for number in range(200)}
    check([circle | {200 + number: 201 + number for number in range(49)} | {249: 17}], workers)


def test_the_lock_tables_of_the_example() -> None:
    """What the program shows is a bank: an account has one holder, and a transfer waits for one account at most."""
    table = deadlocks.lock_table(transfers=50, accounts=30)
    held = [lock.account for lock in table if lock.held]
    waiting = [lock.transfer for lock in table if not lock.held]
    assert len(set(held)) == len(held)
    assert len(set(waiting)) == len(waiting)
    assert {lock.account for lock in table} == set(held)
