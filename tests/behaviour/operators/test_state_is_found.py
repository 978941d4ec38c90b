"""The state of operators, found by the runtime: built anew from a snapshot, they go on as if nothing had been.

Workers are replaced at random moments by others, as many or not, which have what is in a snapshot and nothing else.
In some runs one worker is far behind the others then.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import LISTS, Feed, Kind, feeds, operator_settings
from tests.kit.operators.operator_case import OperatorCase, plain_bags
from tests.kit.operators.operator_table import STREAMS, TABLE
from tests.kit.operators.rounds import IN_LOOPS
from tests.kit.runtime.snapshot_group import SnapshotGroup, UnevenGroup
from tidewheel.operators.windows.watermark import Watermark
from tidewheel.runtime.description.plan import Schedule

WORKERS = (1, 2, 3)
MOST_TURNS = 6
IN_A_JOB = ("publish", "map_actors")
"""Operators that need the attachments of a job."""
ON_AS_MANY_WORKERS = ("capture_to",)
"""Operators that refuse another number of workers."""

CASES = [
    case for case in [*TABLE, *(one for one in IN_LOOPS if one.keeps != "nothing")] if case.operator not in IN_A_JOB
]


def replaced(group: SnapshotGroup, *, rescales: bool) -> SnapshotGroup:
    """Take a snapshot, run on for a while, and have others go on from it."""
    group.take_snapshot()
    group.run_for(MOST_TURNS)
    return group.gone_on(group.random.choice(WORKERS) if rescales else len(group.cores))


def fed(group: SnapshotGroup, feed: Feed, kind: Kind, *, rescales: bool) -> SnapshotGroup:
    """Feed workers, which are replaced every now and then, some after batches that were sent behind the snapshot."""
    random = group.random
    for time, numbers in feed:
        if time > group._times["numbers"]:
            group.advance("numbers", time)
        group.send("numbers", kind.make(numbers))
        group.run_for(MOST_TURNS)
        if random.random() < 0.5:
            group.take_snapshot()
        if group.files[0] and random.random() < 0.3:
            group = group.gone_on(random.choice(WORKERS) if rescales else len(group.cores))
    group.close("numbers")
    for _ in range(random.randint(0, 3)):
        group.run_for(MOST_TURNS)
        group = replaced(group, rescales=rescales)
    return group


def results_of(case: OperatorCase, feed: Feed, kind: Kind, workers: int, seed: int, *, rescales: bool) -> Any:
    """Return what comes out of an operator whose workers are replaced."""
    flow = tw.Dataflow("test")
    case.describe(flow.input("numbers")).capture("results")
    random = Random(seed)
    group = random.choice((SnapshotGroup, UnevenGroup))(flow, workers, random)
    group = fed(group, feed, kind, rescales=rescales)
    group.finish()
    return plain_bags(tw.types.Captured(*one) for one in group.captured("results"))


def examples_of(case: OperatorCase) -> int:
    """Return how often a row is tried. Half the runs find an operator that keeps something elsewhere, see below.

    Of rows that keep nothing only messages are under way. Of rows in loops, the operator has another row. Laws of
    collections try random programs.
    """
    return 3 if case.keeps == "nothing" or case in IN_LOOPS or case not in STREAMS else 10


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_goes_on_from_a_snapshot(case: OperatorCase) -> None:
    """The result is what plain Python says, whenever workers were replaced, and by how many."""
    can_be_rescaled = case.operator not in ON_AS_MANY_WORKERS

    @operator_settings(examples_of(case))
    @given(feeds(), st.sampled_from(case.kinds), st.sampled_from(WORKERS), st.booleans(), st.integers(0, 2**32))
    def holds(feed: Feed, kind: Kind, workers: int, rescales: bool, seed: int) -> None:
        found = results_of(case, feed, kind, workers, seed, rescales=rescales and can_be_rescaled)
        assert found == case.expected(feed)

    holds()


def count_in_a_variable(context: tw.OperatorContext) -> Schedule:
    """Build an operator that counts where no snapshot finds it."""
    counts: Counter[int] = Counter()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            counts.update(batch)
            output.send(token, [(number, counts[number]) for number in batch])

    return schedule


def counted(feed: Feed) -> Any:
    """Return what it sends if it runs to the end."""
    counts: Counter[int] = Counter()
    found: dict[int, Counter[Any]] = {}
    for time, batch in feed:
        counts.update(batch)
        found.setdefault(time, Counter()).update((number, counts[number]) for number in batch)
    return found


def test_an_operator_that_keeps_something_elsewhere_is_found_out() -> None:
    """The test above fails for such an operator in most runs."""
    case = OperatorCase("unary", lambda stream, _: stream.unary(count_in_a_variable, name="count"), counted)
    feed = [(time, [7]) for time in range(9)]
    runs = [results_of(case, feed, LISTS, 1, seed, rescales=False) for seed in range(20)]
    assert sum(found == counted(feed) for found in runs) <= 10


def test_a_message_in_a_snapshot_stays_as_it_came() -> None:
    """The worker goes on while its part is written: a state that a user's function changes then is a copy."""
    (case,) = (one for one in TABLE if str(one) == "aggregate-in place, combined")
    feed = [(0, [5]), (0, [7]), (0, [9])]
    for seed in range(40):
        assert results_of(case, feed, LISTS, 2, seed, rescales=False) == case.expected(feed), f"seed {seed}"


def table_in(folder: Path) -> tw.ParquetSource:
    """Return a source over a file with five row groups, in order of time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"t": [0, 0, 1, 2, 2], "n": range(5)}), folder / "rows.parquet", row_group_size=1)
    return tw.ParquetSource(folder / "rows.parquet", time="t")


def replay_of(_: Path) -> tw.ReplaySource:
    """Return a source that plays what was captured."""
    return tw.ReplaySource([tw.types.Captured(time // 2, [time, time]) for time in range(9)])


SOURCES: dict[str, Callable[[Path], Any]] = {
    "records": lambda _: tw.RecordSource(range(20), batch_size=2, epoch_every=3),
    "parquet": table_in,
    "replay": replay_of,
    "ticks": lambda _: tw.TickSource(0.001, count=9),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_source_goes_on_where_it_was(make: Callable[[Path], Any], tmp_path: Path) -> None:
    """How much was sent of each partition is state, whichever worker reads it: the rest is sent, and nothing twice."""
    flow = tw.Dataflow("test")
    flow.source("source", make(tmp_path)).capture("results")
    whole = SnapshotGroup(flow, 2, Random(0))
    whole.finish()
    expected = plain_bags(tw.types.Captured(*one) for one in whole.captured("results"))
    assert expected
    for seed in range(30):
        group = SnapshotGroup(flow, 2, Random(seed))
        for _ in range(group.random.randint(1, 4)):
            group.run_for(MOST_TURNS)
            group = replaced(group, rescales=seed % 3 > 0)
        group.finish()
        assert plain_bags(tw.types.Captured(*one) for one in group.captured("results")) == expected, f"seed {seed}"


def test_a_source_that_is_paced_keeps_its_pace() -> None:
    """The epochs that a partition has begun are state: after a restart no more of them are incomplete at the probe."""
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.RecordSource(range(9), batch_size=1, epoch_every=1), paced_by="end")
    numbers.filter(lambda n: n < 100).unary(held_back, name="hold").probe("end").capture("results")
    for seed in range(10):
        group = SnapshotGroup(flow, 1, Random(seed))
        for _ in range(5):
            group.run_for(MOST_TURNS)
            group = replaced(group, rescales=False)
            group.run()
            (hold,) = [one for one in group.cores[0]._instances if one.name == "hold"]
            assert len(hold.kept.states["held"]) <= 1, f"seed {seed}"


def held_back(context: tw.OperatorContext) -> Schedule:
    """Build an operator that keeps all times open."""
    held: list[Any] = context.state("held", list)

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        held.extend(token.retain() for token, _ in input)

    return schedule


def test_records_that_come_later_are_read_from_a_queue() -> None:
    """The epoch of a queue is state, and so is the place up to which it was read."""
    source: tw.QueueSource[int] = tw.QueueSource()
    flow = tw.Dataflow("test")
    flow.source("queue", source).capture("results")
    group = SnapshotGroup(flow, 2, Random(0))
    source.put(1)
    group.run()
    group.take_snapshot()
    group = group.gone_on(3)
    source.put(2)
    source.close()
    group.finish()
    assert sorted(group.captured("results")) == [(0, [1]), (1, [2])]


def test_a_key_that_is_no_number_is_one_key_again() -> None:
    """NaN is the same key after a restart as before."""
    flow = tw.Dataflow("test")
    read = flow.input("numbers").accumulate(lambda _: float("nan"), start=int, add=lambda count, _: count + 1)
    read.map(lambda pair: pair[1]).capture("results")
    group = SnapshotGroup(flow, 2, Random(0))
    for time in range(4):
        if time:
            group.advance("numbers", time)
        group.send("numbers", [time])
        group.run()
        group.take_snapshot()
        group = group.gone_on(WORKERS[time % 3])
    group.close("numbers")
    group.finish()
    assert sorted(group.captured("results")) == [(0, [1]), (1, [2]), (2, [3]), (3, [4])]


@pytest.mark.parametrize(("workers", "copies"), [(1, 1), (2, 2), (3, 2)])
def test_what_is_told_to_all_workers_is_told_to_each_once(workers: int, copies: int) -> None:
    """Each worker has what one of the workers before had: a broadcast under way comes to no worker twice."""
    flow = tw.Dataflow("test")
    flow.input("numbers").broadcast().capture("results")
    group = SnapshotGroup(flow, 2, Random(0))
    group.send("numbers", [7], worker=0)
    group.deliver(0)
    group.step(0)
    late = list(group.in_flight[1])
    group.in_flight[1].clear()
    group.begin_snapshot()
    group.deliver(1)
    group.in_flight[1].extend(late)
    group.end_snapshot()
    assert group.saved()[1].operators["broadcast"].unread[0][0].batch == [7]
    group = group.gone_on(workers)
    group.close("numbers")
    group.finish()
    assert group.captured("results") == [(0, [7])] * copies


def test_a_worker_that_was_behind_decides_what_is_late() -> None:
    """Where one worker had processed an epoch and another had not, records of that are in time where they were."""
    behind, ahead = Watermark(0, 5), Watermark(0, 7)
    assert behind.merge(ahead) is ahead.merge(behind) is behind
    new = Watermark(0)
    assert new.merge(ahead) is ahead.merge(new) is new


def test_a_frontier_is_not_told_again() -> None:
    """New workers begin with the least frontier; what was told on a frontier goes on from where it was."""
    told: list[set[int]] = []
    flow = tw.Dataflow("test")
    numbers = flow.input("numbers").on_frontier(lambda frontier, worker: told.append(set(frontier)))
    numbers.probe("end").capture("results")
    group = SnapshotGroup(flow, 2, Random(0))
    for time in range(1, 4):
        group.advance("numbers", time)
        group.run()
        group.take_snapshot()
        group = group.gone_on(time)
    group.close("numbers")
    group.finish()
    assert told == sorted(told, key=lambda times: min(times, default=9))


def test_logs_are_of_as_many_workers_as_before(tmp_path: Path) -> None:
    """A recording has a log for each worker, so another number of workers is refused, by an error that says so."""
    flow = tw.Dataflow("test")
    flow.input("numbers").capture_to(tmp_path / "log")
    group = SnapshotGroup(flow, 2, Random(0))
    group.take_snapshot()
    with raises(tw.JobError):
        group.gone_on(3)


def test_an_epoch_of_another_run_is_still_not_overwritten(tmp_path: Path) -> None:
    """After a restart write_files replaces the epochs that the job itself has written, and no others."""
    (tmp_path / "epoch=5").mkdir()
    flow = tw.Dataflow("test")
    flow.input("numbers").write_files(tmp_path, visible="epoch").capture("results")
    group = SnapshotGroup(flow, 1, Random(0))
    group.send("numbers", [1])
    group.step(0)
    group.take_snapshot()
    group.advance("numbers", 1)
    group.run()
    assert (tmp_path / "epoch=0").exists()
    group = group.gone_on(2)
    group.run()
    assert (tmp_path / "epoch=0").exists()
    group.advance("numbers", 5)
    group.send("numbers", [2])
    group.advance("numbers", 6)
    with raises(tw.JobError):
        group.run()
