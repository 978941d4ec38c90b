"""Messages to collections are counted for each worker apart: none waits for what its peers have yet to receive."""

from random import Random

import pytest

import tidewheel as tw
from tests.kit.runtime.snapshot_group import UnevenGroup
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.progress import CompiledGraph, SpreadName
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.explaining.explainer import Explainer
from tidewheel.runtime.explaining.job_view import JobView

MOST_STEPS = 20
KEYS = {owner: next(key for key in range(100) if owner_of(key, 2) == owner) for owner in (0, 1)}
"""A key of each of two workers."""


def group_of(flow: tw.Dataflow, progress: SpreadName = "broadcast") -> WorkerGroup:
    """Run a dataflow on two workers; worker 0 is fed a number for each, and worker 1 has stepped without work."""
    group = WorkerGroup(flow, 2, progress=progress)
    group.send("numbers", list(KEYS.values()), worker=0)
    group.close("numbers")
    group.deliver(1)
    group.step(1)
    return group


def work_alone(group: WorkerGroup, worker: int) -> None:
    """Let one worker receive and step until nothing is left for it; what it sends to the other stays on its way."""
    for _ in range(MOST_STEPS):
        group.deliver(worker)
        group.step(worker)


@pytest.mark.parametrize("operator", ["distinct", "consolidate"])
def test_a_worker_goes_on_before_its_peer_has_received(operator: str) -> None:
    """It sends the results of its own keys; the peer's are not complete for anybody before the peer has sent them."""
    flow = tw.Dataflow("numbers")
    getattr(flow.input("numbers").as_collection(), operator)().changes().probe("done").capture("changes")
    group = group_of(flow)
    work_alone(group, 0)
    assert group.captured("changes") == [(0, [(KEYS[0], 1)])]
    assert [list(core.probes.frontier("done")) for core in group.cores] == [[0], [0]]
    group.run()
    assert group.captured("changes") == [(0, [(KEYS[worker], 1)]) for worker in (0, 1)]
    assert group.is_complete


def test_an_operator_behind_waits_for_all_workers() -> None:
    """No worker sees an epoch of a stream as complete before all workers have received what leads there."""
    flow = tw.Dataflow("numbers")
    changes = flow.input("numbers").as_collection().distinct().changes()
    changes.exchange(lambda change: 0).count().capture("count")
    group = group_of(flow)
    work_alone(group, 0)
    work_alone(group, 0)
    assert group.captured("count") == []
    group.run()
    assert [sorted(batch) for _, batch in group.captured("count")] == [[((key, 1), 1) for key in sorted(KEYS.values())]]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("operator", ["distinct", "consolidate"])
def test_another_number_of_workers_goes_on_where_one_was_behind(operator: str, workers: int) -> None:
    """Each key is as far as it was: what one worker has sent does not come again, and what waits for another comes."""
    flow = tw.Dataflow("numbers")
    getattr(flow.input("numbers").as_collection(), operator)().changes().capture("changes")
    group = UnevenGroup(flow, 2, Random(0))
    group.starved = 1
    group.send("numbers", list(KEYS.values()), worker=0)
    group.close("numbers")
    group.receive_no_records(1)
    group.step(1)
    work_alone(group, 0)
    assert group.captured("changes") == [(0, [(KEYS[0], 1)])]
    group.begin_snapshot()
    group.receive_no_records(1)
    group.end_snapshot()
    assert [len(one.operators[operator].unread.get(0, [])) for one in group.saved()] == [0, 1]
    later = group.gone_on(workers)
    later.finish()
    assert sorted(record for _, batch in later.captured("changes") for record in batch) == [(KEYS[0], 1), (KEYS[1], 1)]


@pytest.mark.parametrize("progress", ["broadcast", "accumulated"])
def test_what_waits_for_one_worker_is_explained(progress: SpreadName) -> None:
    """Reports have one number for the input on all workers, and the counts of all of them together."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers").as_collection().distinct().changes().probe("done")
    group = group_of(flow, progress=progress)
    work_alone(group, 0)
    while not group.cores[1].report().queued:
        group.cores[1].receive(group.in_flight[1].popleft())
    plan = group.cores[0].plan
    compiled, at = CompiledGraph(plan.graph()), group.location("distinct")
    assert at not in group.cores[1]._ports, "worker 1 has a number of its own"
    view = JobView(plan, compiled, [core.report() for core in group.cores])
    assert view.queued == {(at, 0): {1: 1}}
    assert view.live[at, 0] == 1
    said = str(Explainer(view, None).explain("done"))
    assert "1 message at time 0 at input 0 of 'distinct' on worker 1" in said
    group.run()
    assert group.is_complete
