"""Numbers of updates, and updates that a worker owns, stay on it; others get those that wait."""

import numpy as np

from tidewheel.differential.records import array_of
from tidewheel.operators.collections.pacts import KeyPact, SameWorkerPact


def test_numbers_stay_on_their_worker() -> None:
    """Their edge has no pact in a running job."""
    assert SameWorkerPact().beside({}, 1) is None


def test_each_of_other_workers_gets_a_number_that_waits() -> None:
    """As each has some of its updates."""
    found = list(SameWorkerPact().labelled_parts([(0, 7)], 3, None))
    assert found == [(worker, [(0, 7)], None) for worker in range(3)]
    assert SameWorkerPact().describe() == "same worker"


def test_owned_updates_stay_on_their_worker() -> None:
    """Among another number of workers those that wait are divided by key."""
    owners = KeyPact("least")
    pact, numbers = SameWorkerPact(owners), np.arange(20)
    assert pact.beside({}, 1) is None
    batch = array_of([numbers, numbers], np.ones(20, np.int64))
    for found, expected in zip(pact.split(batch, 3), owners.split(batch, 3), strict=True):
        np.testing.assert_array_equal(found, expected)
