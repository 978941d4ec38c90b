"""`Job.explain` where an operator waits for a thread: it names what the thread has to do."""

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, flow_of, settle
from tests.kit.runtime.stuck_flows import deploy
from tidewheel.runtime.description.plan import Schedule


@pytest.mark.parametrize("expects", [True, False])
def test_a_thread_that_is_expected_is_named(expects: bool) -> None:
    """The operator does not run by itself: it is the thread that has to come back."""
    contexts: list[tw.OperatorContext] = []
    tokens: list[tw.TimestampToken] = []

    def build(context: tw.OperatorContext) -> Schedule:
        contexts.append(context)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            tokens.extend(lent.retain() for lent, _ in input)
            if expects:
                context.expect_activation()

        return schedule

    with deploy(flow_of(build, "ask"), 1) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        settle(job)
        [holder] = job.explain("done").holders
        says = holder.advice == "'ask' expects a thread to call context.activate()"
        assert says is expects
        contexts[0].activate()
        assert job.explain("done").holders[0].advice == "'ask' is about to run"
        tokens.pop().discard()
        job.wait(DEADLINE_S)
