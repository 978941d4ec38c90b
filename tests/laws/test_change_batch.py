"""Change batches against `collections.Counter`."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.progress import ChangeBatch

CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-2, 2)), max_size=12)


def net(changes: list[tuple[str, int]]) -> dict[str, int]:
    """Return the sums that are not zero."""
    counts: Counter[str] = Counter()
    for key, difference in changes:
        counts[key] += difference
    return {key: count for key, count in counts.items() if count}


@law_settings(100)
@given(initial=CHANGES, updates=CHANGES, extension=CHANGES)
def test_batch_is_the_sum_of_its_changes(
    initial: list[tuple[str, int]], updates: list[tuple[str, int]], extension: list[tuple[str, int]]
) -> None:
    """A batch holds the net change of each key and nothing that cancels out, however the changes came in."""
    batch = ChangeBatch(initial)
    assert dict(batch) == net(initial)
    for key, difference in updates:
        batch.update(key, difference)
    batch.extend(extension)
    expected = net([*initial, *updates, *extension])
    assert len(list(batch)) == len(batch) == len(expected)
    assert dict(batch) == expected


@law_settings(50)
@given(first=CHANGES, second=CHANGES)
def test_drain_returns_everything_once(first: list[tuple[str, int]], second: list[tuple[str, int]]) -> None:
    """What is drained is the net changes since the last drain; nothing stays behind, and what was drained stays."""
    batch = ChangeBatch(first)
    drained = batch.drain()
    assert len(batch) == 0
    batch.extend(second)
    assert sorted(drained) == sorted(net(first).items())
    assert sorted(batch.drain()) == sorted(net(second).items())
    assert batch.drain() == []
