"""Several dataflows on the same workers, with the local engine."""

import threading
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.runtime.engines.local_job import LocalJob

DEADLINE_S = 30.0


def doubling(name: str, *, fails_at: int | None = None) -> tw.Dataflow:
    def double(number: int) -> int:
        if number == fails_at:
            raise ValueError(f"no {number}")
        return 2 * number

    flow = tw.Dataflow(name)
    flow.input("numbers").exchange(lambda n: n).map(double).probe("done").capture("results")
    return flow


def feed(job: tw.types.Job, *numbers: int) -> None:
    for number in numbers:
        job.input("numbers").send([number])
    job.input("numbers").close()


def results(job: tw.types.Job) -> list[int]:
    return sorted(number for entry in job.captured("results") for number in entry.batch)


@pytest.mark.parametrize("workers", [1, 3])
def test_each_has_inputs_probes_and_captures_of_its_own(workers: int) -> None:
    """Though they have the same names; waiting for the job waits for all."""
    with tw.run(doubling("first"), workers=workers, engine="local") as job:
        second = job.add(doubling("second"))
        feed(job, 1, 2)
        feed(second, 10, 20, 30)
        assert dict(job.dataflows) == {"second": second}
        job.wait()
        assert (results(job), results(second)) == ([2, 4], [20, 40, 60])
        assert (second.workers, second.plan.name) == (workers, "second")
        assert job.statistics().inputs["numbers"].records == 2
        assert second.statistics().inputs["numbers"].records == 3


def test_one_may_feed_another() -> None:
    """Waiting for the second runs the first as well, whose operator feeds it."""
    flow = tw.Dataflow("upstream")
    ends: dict[str, tw.types.InputHandle] = {}
    flow.input("numbers").inspect(lambda number: ends["down"].send([number + 1])).probe("done")
    with tw.run(flow, engine="local") as job:
        down = job.add(doubling("downstream"))
        ends["down"] = down.input("numbers")
        feed(job, 1, 2, 3)
        with raises(tw.JobError):
            down.wait()
        down.input("numbers").close()
        down.wait()
        assert results(down) == [4, 6, 8]
        job.stop()


def test_an_added_dataflow_that_fails_leaves_the_others_alone() -> None:
    """Its own job raises what its operator raised."""
    with tw.run(doubling("good"), engine="local") as job:
        bad = job.add(doubling("bad", fails_at=5))
        feed(bad, 5)
        feed(job, 1)
        with raises(tw.JobError) as failure:
            bad.wait()
        assert failure.value.operator == "map"
        job.probe("done").wait_until(2**62, timeout_s=DEADLINE_S)
        with raises(tw.JobError):
            job.wait()
        assert results(job) == [2]
        job.drop("bad")
        job.wait()


def test_leaving_the_block_raises_what_an_added_dataflow_raised() -> None:
    """Nobody need have looked at it, but it must have run."""
    deployed = tw.run(doubling("good"), engine="local")

    def use() -> None:
        with deployed as job:
            feed(job.add(doubling("bad", fails_at=5)), 5)
            feed(job, 1)
            job.probe("done").wait_until(2**62, timeout_s=DEADLINE_S)
            job.stop()

    with raises(tw.JobError):
        use()


def test_when_the_job_fails_so_does_what_was_added() -> None:
    """With an error that says why."""
    job = tw.run(doubling("bad", fails_at=5), engine="local")
    added = job.add(doubling("good"))
    below = added.add(doubling("below"))
    feed(job, 5)
    for one in (added, below):
        with raises(tw.JobError):
            one.wait()
    with raises(tw.JobError) as failure:
        job.wait()
    assert failure.value.operator == "map"
    job.stop()


def test_dropping_frees_the_name_and_ends_the_dataflow() -> None:
    """What is asked of it afterwards says that it was stopped."""
    with tw.run(doubling("first"), engine="local") as job:
        second = job.add(doubling("second"))
        for name in ("first", "second"):
            with pytest.raises(tw.GraphError, match=f"runs a dataflow '{name}' already: drop"):
                job.add(doubling(name))
        job.drop("second")
        with raises(tw.JobError):
            second.input("numbers").send([1])
        assert dict(job.dataflows) == {}
        again = job.add(doubling("second"))
        feed(again, 4)
        again.wait()
        assert results(again) == [8]
        with raises(tw.JobError):
            job.drop("third")
        with raises(tw.JobError):
            job.drop("first")
        job.stop()


def test_stopping_stops_all() -> None:
    """Also those that were added to an added one; nothing can be added any more."""
    with tw.run(doubling("first"), engine="local") as job:
        below = job.add(doubling("second")).add(doubling("first"))
        job.stop()
    for stopped in (job, *job.dataflows.values(), below):
        with raises(tw.JobError):
            stopped.add(doubling("late"))


def test_a_paused_one_waits_for_start() -> None:
    """The others run meanwhile."""
    with tw.run(doubling("first"), engine="local") as job:
        second = job.add(doubling("second"), paused=True)
        feed(second, 1)
        feed(job, 1)
        with raises(tw.JobError):
            job.wait()
        assert (results(job), results(second)) == ([2], [])
        second.start()
        job.wait()
        assert results(second) == [2]


@pytest.mark.parametrize("flow", [None, "flow", doubling])
def test_only_dataflows_are_added(flow: Any) -> None:
    """A function that makes one is none."""
    with tw.run(doubling("first"), engine="local") as job:
        with raises(tw.GraphError):
            job.add(flow)
        job.stop()


def test_topics_of_an_added_dataflow_can_be_read() -> None:
    """Reading runs the job that publishes and those beside it."""
    flow = tw.Dataflow("news")
    flow.input("numbers").publish("added-news")
    with tw.run(doubling("first"), engine="local") as job:
        news = job.add(flow, paused=True)
        feed(job, 3)
        with tw.subscribe("added-news") as subscription:
            news.start()
            news.input("numbers").send([1])
            news.input("numbers").close()
            assert [epoch.records for epoch in subscription.epochs()] == [[1]]
        job.wait()
        assert results(job) == [6]


def test_two_threads_may_add_at_once() -> None:
    """Each name is taken once."""
    refused: list[Exception] = []
    with tw.run(doubling("first"), engine="local") as job:

        def add() -> None:
            try:
                job.add(doubling("second"))
            except tw.GraphError as error:
                refused.append(error)

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert len(refused) == 3
        assert list(job.dataflows) == ["second"]
        job.stop()


def test_a_dataflow_that_ticks_does_not_keep_the_inputs_of_others_waiting() -> None:
    """An input that is too far ahead of a probe that another handle holds back is let in all the same."""

    def build(context: tw.OperatorContext) -> Any:
        token = context.token()

        def schedule(output: tw.OutputPort) -> None:
            if token.is_live:
                context.activator.after(0.001)

        return schedule

    ticking = tw.Dataflow("ticking")
    [ticks] = ticking.operator([], 1, build, name="tick")
    ticks.probe("ticks")
    with tw.run(doubling("first"), engine="local", config=tw.RuntimeConfig(epochs_ahead=10)) as job:
        job.add(ticking)
        later = job.input("numbers").clone()
        for epoch in range(25):
            later.advance_to(epoch + 1, timeout_s=DEADLINE_S)
        later.close()
        job.input("numbers").close()
        job.probe("done").wait_until(20, timeout_s=DEADLINE_S)
        job.stop()


def test_operators_may_add_dataflows() -> None:
    """When they are built, and when they run, while the program adds some, too."""

    def build(context: tw.OperatorContext) -> Any:
        job.add(doubling("added when built"))

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for _ in input:
                pass

        return schedule

    building = tw.Dataflow("building")
    building.input("numbers").unary(build, name="build")
    adding = tw.Dataflow("adding")
    adding.input("numbers").inspect(lambda n: job.add(doubling(f"added {n}"))).probe("done")
    with tw.run(adding, engine="local") as job:
        job.add(building)
        job.input("numbers").send([1, 2])
        job.input("numbers").advance_to(1)
        runner = threading.Thread(target=job.probe("done").wait_until, args=[1], daemon=True)
        runner.start()
        for number in range(10):
            job.add(doubling(f"more {number}"))
        runner.join(DEADLINE_S)
        assert not runner.is_alive()
        assert {"building", "added when built", "added 1", "added 2", "more 9"} <= set(job.dataflows)
        job.stop()


def test_stopping_goes_on_where_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle does not leave anything behind that a second stop() would not end."""
    job = tw.run(doubling("first"), engine="local")
    second = job.add(doubling("second"))
    interrupts = iter([KeyboardInterrupt()])

    def interrupted(reason: str | None, *, on_purpose: bool) -> None:
        for interrupt in interrupts:
            raise interrupt

    monkeypatch.setattr(second._attachments, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        job.stop()
    job.stop()
    assert isinstance(job, LocalJob)
    assert not job._rounds.run()
    assert (job._released, second._released) == (True, True)


def test_what_is_added_while_the_job_stops_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """And whoever added it is told."""
    job = tw.run(doubling("first"), engine="local")
    hosted: list[tw.types.Job] = []
    deploy = LocalJob._bring_up

    def deploy_slowly(added: LocalJob, attachments: Any, *, paused: bool) -> LocalJob:
        hosted.append(deploy(added, attachments, paused=paused))
        job.stop()
        return added

    monkeypatch.setattr(LocalJob, "_bring_up", deploy_slowly)
    with raises(tw.JobError):
        job.add(doubling("second"))
    assert hosted[0]._released
