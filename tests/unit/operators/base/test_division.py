"""State divided among another number of workers: nothing is lost, and nothing comes twice."""

from collections import Counter
from functools import reduce
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.operators.base.division import Division, at_first, by_input, everywhere, split_by_key, updated
from tidewheel.operators.keys.record_hash import GatherPact
from tidewheel.runtime.description.pacts import BroadcastPact, Exchange
from tidewheel.runtime.description.shards import owner_of

EPOCHS = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 99), min_size=1))


def rescaled(division: Division, states: list[Any], workers: int) -> list[Any]:
    """Return what each of so many workers has of some states, as restored operators do it."""
    parts = [division.split(state, workers) for state in states]
    found = [[part[worker] for part in parts if part[worker] is not None] for worker in range(workers)]
    return [reduce(division.merge, own) if own else None for own in found]


@law_settings(100)
@given(st.lists(EPOCHS, min_size=1), st.integers(1, 5))
def test_records_go_where_the_exchange_sends_them(states: list[dict[int, list[int]]], workers: int) -> None:
    """Of each time all records are there once, each with the worker that owns its key."""
    division = by_input([Exchange(lambda n: n)]).of_each()
    shares = rescaled(division, [{time: [[batch]] for time, batch in state.items()} for state in states], workers)
    found: Counter[Any] = Counter()
    for worker, share in enumerate(shares):
        for time, (batches,) in share.items():
            rows = list(chain.from_iterable(batches))
            assert rows
            assert {owner_of(row, workers) for row in rows} == {worker}
            found.update((time, row) for row in rows)
    assert found == Counter((time, row) for state in states for time, batch in state.items() for row in batch)


def test_each_input_has_a_rule_of_its_own() -> None:
    """Records without a pact are shared equally, those of a broadcast are everywhere, gathered ones on worker 0."""
    division = by_input([None, BroadcastPact(), GatherPact()])
    assert rescaled(division, [[[[1, 2]], [["all"]], [["one"]]]], 2) == [
        [[[1]], [["all"]], [["one"]]],
        [[[2]], [["all"]], []],
    ]


def test_states_by_key_go_to_the_owners_of_keys() -> None:
    """They keep their type, and a worker without keys has none."""
    counts = Counter({key: key for key in range(20)})
    shares = rescaled(Division(split_by_key, updated), [counts], 3)
    assert all(type(share) is Counter for share in shares)
    assert reduce(updated, shares, dict[Any, Any]()) == counts
    assert all(owner_of(key, 3) == worker for worker, share in enumerate(shares) for key in share)
    assert split_by_key({0: 1}, 3).count(None) == 2


@pytest.mark.parametrize("workers", [1, 3])
def test_what_has_no_key_is_on_one_worker_or_on_all(workers: int) -> None:
    """The parts of several workers become one, once or on each of them."""
    assert rescaled(at_first(list.__add__), [[1], [2]], workers) == [[1, 2], *[None] * (workers - 1)]
    assert rescaled(everywhere(max), [1, 2], workers) == [2] * workers
