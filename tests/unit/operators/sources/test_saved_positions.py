"""The positions that wait until they may be saved."""

from hypothesis import given
from hypothesis import strategies as st

from tidewheel.operators.sources.saved_positions import SavedPositions


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=20), st.integers(0, 8))
def test_the_latest_that_may_be_saved_is(noted: list[tuple[str, int]], limit: int) -> None:
    """And none that must wait; each is taken once."""
    positions, marks = SavedPositions(), {"a": 0, "b": 0}
    expected: dict[str, int] = {}
    for position, (partition, step) in enumerate(noted):
        marks[partition] += step
        positions.note(partition, marks[partition], position)
        if marks[partition] < limit:
            expected[partition] = position
    assert positions.take(lambda mark: mark < limit) == expected
    assert positions.take(lambda mark: mark < limit) == {}
    rest = {partition for partition, mark in marks.items() if mark >= limit and partition in dict(noted)}
    assert positions.partitions == rest
