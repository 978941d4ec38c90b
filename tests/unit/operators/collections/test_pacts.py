"""The numbers of updates stay on their worker, and all of another number of workers get those that wait."""

from tidewheel.operators.collections.pacts import SameWorkerPact


def test_numbers_stay_on_their_worker() -> None:
    """Their edge has no pact in a running job."""
    assert SameWorkerPact().beside({}, 1) is None


def test_each_of_other_workers_gets_a_number_that_waits() -> None:
    """As each has some of its updates."""
    found = list(SameWorkerPact().labelled_parts([(0, 7)], 3, None))
    assert found == [(worker, [(0, 7)], None) for worker in range(3)]
    assert SameWorkerPact().describe() == "same worker"
