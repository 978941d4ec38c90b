"""`RuntimeConfig(progress=...)`: the same results either way, and what each way costs."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.harness import bags, gather
from tests.kit.runtime.busy_flow import busy_flow, collected, plain_counts
from tests.kit.runtime.one_operator import DEADLINE_S, captured, feed, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread, hoarding
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.progress import SpreadName
from tidewheel.runtime.engines.local_job import LocalJob

EPOCHS = [[5, 9, 14], [], [3, 77, 8], [1], [40, 41]]


def gathering() -> tw.Dataflow:
    flow = tw.Dataflow("gathering")
    flow.input("numbers").exchange(lambda n: n).unary(gather, name="gather").capture("results").probe("done")
    return flow


def nested_loops() -> tw.Dataflow:
    """Return a dataflow that takes ones away in an inner loop, and tens in an outer one."""

    def inner(numbers: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        spread = numbers.exchange(lambda pair: pair[1])
        return (
            spread.filter(lambda pair: pair[1] % 10 > 0).map(lambda pair: (pair[0], pair[1] - 1)),
            spread.filter(lambda pair: pair[1] % 10 == 0),
        )

    def outer(numbers: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        tens = numbers.iterate(inner, name="ones").unary(gather, name="gather")
        return (
            tens.filter(lambda pair: pair[1] > 0).map(lambda pair: (pair[0], pair[1] - 10)),
            tens.filter(lambda pair: pair[1] <= 0),
        )

    flow = tw.Dataflow("nested")
    pairs = flow.input("numbers").map(lambda n: (n, n)).iterate(outer, name="tens")
    pairs.map(lambda pair: pair[0]).capture("results").probe("done")
    return flow


def feedback_of_epochs() -> tw.Dataflow:
    """Return a dataflow whose numbers come back an epoch later, one less, until they are 0."""
    flow = tw.Dataflow("epochs")
    later = flow.feedback()
    all_of_them = flow.input("numbers").concat(later).exchange(lambda n: n)
    later.connect(all_of_them.filter(lambda n: 0 < n < 10).map(lambda n: n - 1))
    all_of_them.unary(gather, name="gather").capture("results").probe("done")
    return flow


@pytest.mark.parametrize("describe", [gathering, nested_loops, feedback_of_epochs])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_are_the_same(describe: Callable[[], tw.Dataflow], workers: int) -> None:
    """For each time the same records, however workers tell each other of their progress."""
    found = []
    for progress in ("broadcast", "accumulated"):
        with deploy(describe(), workers, progress) as job:
            feed(job, *EPOCHS)
            job.wait(DEADLINE_S)
            assert len(job.probe("done").frontier) == 0
            found.append(bags(job.captured("results")))
    assert found[0] == found[1]
    if describe is not feedback_of_epochs:
        assert found[0] == {time: Counter(batch) for time, batch in enumerate(EPOCHS) if batch}


@every_spread
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_a_busy_dataflow_gives_what_plain_python_gives(workers: int, progress: SpreadName) -> None:
    """Also where an operator waits for whole times behind a loop with exchanges."""
    with deploy(busy_flow(), workers, progress) as job:
        feed(job, *EPOCHS)
        job.wait(DEADLINE_S)
        assert collected(captured(job, "counts")) == plain_counts(EPOCHS)


@every_spread
def test_probes_follow_epochs(progress: SpreadName) -> None:
    """A probe reaches a time as soon as all is done for the times before, and not before."""
    with deploy(nested_loops(), 3, progress) as job:
        done = job.probe("done")
        for epoch in range(1, 5):
            job.input("numbers").send([21, epoch])
            settle(job)
            assert list(done.frontier) == [epoch - 1]
            job.input("numbers").advance_to(epoch)
            done.wait_until(epoch, DEADLINE_S)
            assert list(done.frontier) == [epoch]
            assert len([1 for time, batch in captured(job) for _ in batch if time == epoch - 1]) == 2
        job.stop()


# ---------------------------------------------------------------------- what is told


def long_pipe(operators: int) -> tw.Dataflow:
    """Return a row of operators all of which wait for whole times."""
    flow = tw.Dataflow("pipe")
    stream = flow.input("numbers")
    for _ in range(operators):
        stream = stream.unary(gather, name="gather")
    stream.probe("done")
    return flow


def messages(job: LocalJob) -> int:
    return sum(worker.progress_messages for worker in job.statistics().workers)


@every_spread
@pytest.mark.parametrize("workers", [2, 3, 5, 8])
@pytest.mark.parametrize("operators", [0, 1, 6])
def test_what_an_empty_epoch_costs(operators: int, workers: int, progress: SpreadName) -> None:
    """One message from each to each, or one from each and one to each, however long the row of operators is."""
    with deploy(long_pipe(operators), workers, progress) as job:
        settle(job)
        for epoch in range(1, 4):
            before = messages(job)
            job.input("numbers").advance_to(epoch)
            job.probe("done").wait_until(epoch, DEADLINE_S)
            settle(job)
            sent = messages(job) - before
            if progress == "broadcast":
                assert sent == workers * (workers - 1)
            else:
                assert sent <= 2 * (workers - 1)
        job.stop()


@every_spread
def test_nothing_is_told_while_an_epoch_is_open(progress: SpreadName) -> None:
    """Records come, are exchanged and gathered; as long as the input is at their time, no progress is sent."""
    with deploy(gathering(), 4, progress) as job:
        settle(job)
        before = messages(job)
        for number in range(40):
            job.input("numbers").send([number, number + 1, number + 2])
            settle(job)
        assert messages(job) == before
        assert job.statistics().operators["gather"].records_in == 120
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert sorted(n for _, batch in captured(job) for n in batch) == sorted(
            n + more for n in range(40) for more in range(3)
        )


@pytest.mark.parametrize("workers", [2, 3])
def test_holding_back_sends_fewer_envelopes(workers: int) -> None:
    """Without it each step says what it did; the results are the same."""
    told, results = [], []
    for hold_back in (True, False):
        group = WorkerGroup(busy_flow(), workers, hold_back=hold_back)
        for number in range(12):
            group.send("numbers", [number])
            group.run()
        group.close("numbers")
        group.run()
        assert group.is_complete
        told.append(sum(1 for _, envelope in group.sent if envelope.progress))
        results.append(collected(group.captured("counts")))
    assert told[0] < told[1] / 2
    assert results[0] == results[1]


@every_spread
def test_views_may_differ_at_rest_but_frontiers_do_not(progress: SpreadName) -> None:
    """What is held back is not in the others' counts; where every frontier is, all agree, also with a leak."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("leaky")
    flow.input("numbers").exchange(lambda n: n).unary(hoarding(kept), name="leaky").probe("done").capture("results")
    with deploy(flow, 3, progress) as job:
        for number in range(9):
            job.input("numbers").send([number])
            job.input("numbers").advance_to(number)
            settle(job)
            frontiers = {tuple(core.probes.frontier("done")) for core in job._cores}
            assert frontiers == {(min(token.time for token in kept),)}
            if number % 3 == 2:
                kept.pop(0).discard()
        job.input("numbers").close()
        while kept:
            kept.pop().discard()
        job.wait(DEADLINE_S)
        assert all(core.is_complete for core in job._cores)
