"""`context.probe`: an operator that looks how far a dataflow has come, and is scheduled when that moves."""

from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, captured
from tests.kit.runtime.stuck_flows import every_spread
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.plan import Build, Schedule


def lock_step(epochs: int, seen: list[Any], probe: str = "done") -> Build:
    """Return a source that sends an epoch once all before it are complete at a probe."""

    def build(context: tw.OperatorContext) -> Schedule:
        token = context.token()

        def schedule(output: tw.OutputPort) -> None:
            frontier = context.probe(probe)
            if not token.is_live or frontier.less_than(token.time):
                return
            seen.append((context.worker, token.time))
            output.send(token, [token.time])
            if token.time + 1 == epochs:
                token.discard()
            else:
                token.downgrade(token.time + 1)

        return schedule

    return build


@every_spread
@pytest.mark.parametrize("workers", [1, 3])
def test_a_source_goes_on_when_the_probe_does(workers: int, progress: SpreadName) -> None:
    """It is scheduled for that, without a timer and without asking for it, and no epoch overtakes another."""
    flow = tw.Dataflow("test")
    seen: list[Any] = []
    [numbers] = flow.operator([], 1, lock_step(20, seen), notify=False, name="source")
    numbers.exchange(lambda n: n).probe("done").capture("results")
    with tw.run(flow, workers=workers, engine="local", config=tw.RuntimeConfig(progress=progress)) as job:
        job.wait(DEADLINE_S)
        assert sorted(captured(job)) == sorted((n, [n]) for n in range(20) for _ in range(workers))
    epochs = [epoch for _, epoch in seen]
    assert epochs == sorted(epochs)


def test_an_operator_that_does_not_ask_is_not_bothered() -> None:
    """Probes cost nothing to those who do not look at them."""
    flow = tw.Dataflow("test")
    calls: list[int] = []

    def build(context: tw.OperatorContext) -> Schedule:
        return lambda output: calls.append(0)

    flow.operator([], 1, build, notify=False, name="quiet")
    [numbers] = flow.operator([], 1, lock_step(20, []), notify=False, name="source")
    numbers.probe("done")
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
    assert len(calls) == 1


def test_a_probe_that_there_is_not_is_named() -> None:
    """The error lists those that there are."""
    flow = tw.Dataflow("test")
    [numbers] = flow.operator([], 1, lock_step(20, [], "dome"), notify=False, name="source")
    numbers.probe("done")
    message = r"'source' failed on worker 0: GraphError: dataflow 'test' has no probe 'dome'; it has \['done'\]"
    with pytest.raises(tw.JobError, match=message), tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
