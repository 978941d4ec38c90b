"""Folds of states that came in messages, which a snapshot may still have to write."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tidewheel.operators.epochs.key_fold import KeyFold
from tidewheel.operators.keys.record_keys import Keys


def put(state: dict[str, list[int]], record: tuple[str, int]) -> dict[str, list[int]]:
    """Add a record to a state in place."""
    state.setdefault(record[0], []).append(record[1])
    return state


def merge(first: dict[str, list[int]], second: dict[str, list[int]]) -> dict[str, list[int]]:
    """Merge two states in place; the first keeps lists of the second."""
    for key, numbers in second.items():
        if key in first:
            first[key] += numbers
        else:
            first[key] = numbers
    return first


def first_that_is_not_empty(first: dict[str, list[int]], second: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the second state if the first is empty."""
    return merge(first, second) if first else second


@pytest.mark.parametrize("combine", [merge, first_that_is_not_empty])
@pytest.mark.parametrize("start", [dict, None])
def test_no_message_is_changed(start: Callable[[], Any] | None, combine: Callable[[Any, Any], Any]) -> None:
    """Whether a state was the first of its key or a later one, and whoever made it."""
    fold = KeyFold(Keys(None), start, put).combined(combine)
    messages: list[list[tuple[str, Any]]] = [[("k", {})], [("k", {"p": [1]})], [("k", {"q": [2]})], [("k", {"q": [3]})]]
    came = deepcopy(messages)
    states = fold.start()
    for message in messages:
        states = fold.add(states, message)
    assert states == {"k": {"p": [1], "q": [2, 3]}}
    assert messages == came
