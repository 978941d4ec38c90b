"""The loop that several examples are made of works off whole rounds, and one epoch after the other."""

from typing import Any

import pytest

import tidewheel as tw
from examples.parts.rounds import Round, go_round
from tests.examples.running import DEADLINE_S

EPOCHS = 5


class Countdown:
    """Sends numbers round until they are 0, each as many rounds on as it says; lets out what it did, in order."""

    def __init__(self) -> None:
        self.calls = 0

    def work(self, number: int, entered: list[Any], returned: list[Any]) -> Round:
        """Take one from each number."""
        self.calls += 1
        came = [n for batch in entered + returned for n in batch]
        again = [(1 + n % 2, [n - 1]) for n in came if n]
        return Round(again, [(self.calls, number, sorted(came))])


@pytest.mark.parametrize("workers", [1, 2])
def test_epochs_go_one_after_the_other(workers: int) -> None:
    """All epochs are there at once, and each worker still works off all rounds of one before any of the next."""
    flow = tw.Dataflow("rounds")
    keys = [lambda n: n, lambda n: n]
    go_round(flow.input("numbers"), "countdown", Countdown, keys).inspect_batches(
        lambda batch, time, worker: batch.append((time, worker))
    ).capture("did")
    with tw.run(flow, workers=workers, engine="local", paused=True) as job:
        with job.input("numbers") as numbers:
            for epoch in range(EPOCHS):
                numbers.advance_to(epoch)
                numbers.send([*range(6, 14)])
        job.start()
        job.wait(timeout_s=DEADLINE_S)
        did = [one.batch for one in job.captured("did")]
    for worker in range(workers):
        calls = sorted((call, where[0], number) for (call, number, _), where in did if where[1] == worker)
        assert [call for call, _, _ in calls] == list(range(1, len(calls) + 1))
        in_order = [(epoch, number) for _, epoch, number in calls]
        assert in_order == sorted(in_order)
        assert {epoch for epoch, _ in in_order} == set(range(EPOCHS))


def test_rounds_are_whole_and_as_far_on_as_asked() -> None:
    """What comes round in one round comes in one call, however many batches it is; rounds between are skipped."""
    flow = tw.Dataflow("rounds")
    go_round(flow.input("numbers"), "countdown", Countdown, [None, None]).capture("did")
    with tw.run(flow, engine="local") as job:
        with job.input("numbers") as numbers:
            numbers.send([1, 2])
            numbers.send([2, 3])
        job.wait(timeout_s=DEADLINE_S)
        did = [(number, came) for one in job.captured("did") for _, number, came in one.batch]
    assert did == [(0, [1, 2, 2, 3]), (1, [1, 1]), (2, [0, 2]), (3, [0, 0, 1]), (5, [0])]
