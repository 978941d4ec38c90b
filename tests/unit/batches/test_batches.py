"""Batches that are taken apart."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.operators.harness import KINDS, Kind
from tidewheel.batches.batches import keep, length, records, scatter

AS_TRUE_AS_FALSE = st.sampled_from([True, False, 1, 0, "yes", "", None, [0]])


def numbers_of(batch: Any, kind: Kind) -> list[int]:
    return [kind.number(record) for record in records(batch)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(st.lists(st.tuples(st.integers(-9, 9), AS_TRUE_AS_FALSE), min_size=1))
def test_what_is_kept_is_in_order(kind: Kind, pairs: list[tuple[int, object]]) -> None:
    """Exactly the records whose entry is true are left, whatever it is, in a batch of the same kind."""
    batch = kind.make([number for number, _ in pairs])
    kept = keep(batch, [wanted for _, wanted in pairs])
    assert type(kept) is type(batch)
    assert numbers_of(kept, kind) == [number for number, wanted in pairs if wanted]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 11)), min_size=1))
def test_each_part_has_its_owners_records_in_order(kind: Kind, pairs: list[tuple[int, int]]) -> None:
    """No part is empty, none is missing, and all are of the batch's kind."""
    batch = kind.make([number for number, _ in pairs])
    parts = scatter(batch, [owner for _, owner in pairs], 12)
    assert all(part is None or (type(part) is type(batch) and length(part)) for part in parts)
    found = [[] if part is None else numbers_of(part, kind) for part in parts]
    assert found == [[number for number, owner in pairs if owner == part] for part in range(12)]
