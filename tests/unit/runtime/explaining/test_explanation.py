"""`Job.explain`: each reason that a user can mend is told in words, with who, where, which time and by which path."""

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import gather
from tests.kit.runtime.one_operator import DEADLINE_S, flow_of, scheduled, settle
from tests.kit.runtime.stuck_flows import (
    deploy,
    endless,
    every_spread,
    hoarding,
    reading,
    straight,
    ticking,
    words,
)
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.plan import Schedule

ONCE_UNCHANGED = "unchanged"


def texts(explanation: tw.types.Explanation) -> list[str]:
    return [holder.what for holder in explanation.holders]


# ---------------------------------------------------------------------- an input that was never advanced


@every_spread
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_an_input_that_was_never_advanced(workers: int, progress: SpreadName) -> None:
    """It is named, with its time, and the call that lets it go on; doing that does."""
    with deploy(straight(), workers, progress) as job:
        job.input("numbers").send([3, 4])
        for time in (0, 5):
            job.input("numbers").advance_to(time)
            settle(job)
            explanation = job.explain("done")
            assert list(explanation.frontier) == [time]
            [holder] = explanation.holders
            route = ("input numbers", "map", "exchange", "filter")
            assert words(holder) == ("input numbers", time, tuple(range(workers)), route, ONCE_UNCHANGED, time)
            on = "worker 0" if workers == 1 else "workers " + ", ".join(map(str, range(workers)))
            assert holder.what == f"input 'numbers' is at time {time} on {on}"
            assert holder.advice == "job.input('numbers').advance_to(...) or close() lets it go on"
            assert (explanation.name, explanation.busy, explanation.notes) == ("done", (), ())
            assert (
                str(explanation)
                == repr(explanation)
                == (
                    f"'done' waits: times from {time} on can still arrive there\n"
                    f"1. {holder.what}\n"
                    f"   reaches it at {time}, by input numbers > map > exchange > filter (time unchanged)\n"
                    f"   -> {holder.advice}"
                )
            )
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert str(job.explain("done")) == "'done' is complete: nothing can arrive there any more"


@every_spread
def test_only_the_input_that_is_behind_is_named(progress: SpreadName) -> None:
    """Of two inputs, one closed or ahead, the other is what the frontier waits for."""
    flow = tw.Dataflow("two")
    flow.input("early").concat(flow.input("late")).probe("done")
    with deploy(flow, 2, progress) as job:
        job.input("early").advance_to(1)
        job.input("late").advance_to(4)
        settle(job)
        assert texts(job.explain("done")) == ["input 'early' is at time 1 on workers 0, 1"]
        job.input("early").close()
        settle(job)
        assert texts(job.explain("done")) == ["input 'late' is at time 4 on workers 0, 1"]
        job.stop()


@every_spread
@pytest.mark.parametrize("closed", [True, False])
def test_an_input_that_workers_have_not_heard_of_is_not_the_drivers_to_advance(
    closed: bool, progress: SpreadName
) -> None:
    """What the driver has done already is not asked for again."""
    with deploy(straight(), 2, progress) as job:
        settle(job)
        if closed:
            job.input("numbers").close()
        else:
            job.input("numbers").advance_to(7)
        [holder] = job.explain("done").holders
        done = "closed it" if closed else "took it to 7"
        assert (holder.time, holder.advice) == (0, f"the driver {done}; those workers have not come to that yet")
        settle(job)
        assert list(job.explain("done").frontier) == ([] if closed else [7])
        job.stop()


# ---------------------------------------------------------------------- a token that nobody discards


@every_spread
@pytest.mark.parametrize("delay", [0, 2])
def test_a_token_that_is_never_discarded(delay: int, progress: SpreadName) -> None:
    """Operator, worker, time, path and remedy are named; the remedy works."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("leaky")
    flow.input("numbers").unary(hoarding(kept, lambda time: time + delay), exchange=lambda n: n, name="leaky").map(
        str
    ).probe("done")
    with deploy(flow, 3, progress) as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(delay + 3)
        settle(job)
        explanation = job.explain("done")
        assert list(explanation.frontier) == [delay]
        holder, numbers = explanation.holders
        [worker] = [core.worker for core in job._cores if kept[0]._ledger is core.ledger]
        assert words(holder) == ("leaky", delay, (worker,), ("leaky", "map"), ONCE_UNCHANGED, delay)
        assert holder.what == (
            f"operator 'leaky' holds 1 token for time {delay} on worker {worker}, "
            "though its inputs have passed that time"
        )
        assert "leaked" in holder.advice
        assert "discard()" in holder.advice
        assert holder.advice.endswith(f"'leaky' waits until its input 0 passes {delay + 3}")
        assert (numbers.what, numbers.port) == (
            f"input 'numbers' is at time {delay + 3} on workers 0, 1, 2",
            "input 0 of 'leaky'",
        )
        kept.pop().discard()
        job.input("numbers").close()
        job.wait(DEADLINE_S)


@every_spread
def test_tokens_of_one_time_are_counted_over_the_workers(progress: SpreadName) -> None:
    """Two tokens on each of two workers are four, held on both."""
    kept: list[tw.TimestampToken] = []
    with deploy(flow_of(hoarding(kept), "leaky"), 2, progress) as job:
        for number in range(4):
            job.input("numbers").send([number])
        job.input("numbers").close()
        settle(job)
        [holder] = job.explain("done").holders
        assert holder.what.startswith("operator 'leaky' holds 4 tokens for time 0 on workers 0, 1, though")
        assert holder.workers == (0, 1)
        while kept:
            kept.pop().discard()
        job.wait(DEADLINE_S)


@every_spread
def test_a_token_is_no_leak_before_its_inputs_have_passed_its_time(progress: SpreadName) -> None:
    """An operator that collects an epoch holds tokens rightly: the input comes first, the operator waits for it."""
    with deploy(flow_of(gather, "gather"), 3, progress) as job:
        for number in range(3):
            job.input("numbers").send([number])
        settle(job)
        explanation = job.explain("done")
        assert texts(explanation) == [
            "input 'numbers' is at time 0 on workers 0, 1, 2",
            "operator 'gather' holds 3 tokens for time 0 on workers 0, 1, 2 (waits for the above)",
        ]
        assert [bool(holder.advice) for holder in explanation.holders] == [True, False]
        job.input("numbers").advance_to(1)
        settle(job)
        assert texts(job.explain("done")) == ["input 'numbers' is at time 1 on workers 0, 1, 2"]
        job.stop()


@every_spread
def test_what_a_worker_has_dropped_and_not_told_yet_is_not_named(progress: SpreadName) -> None:
    """While an input is open its workers hold back that later tokens are gone; none of them is taken for a holder."""

    def keep_for_a_while(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            for token in kept:
                token.discard()
            kept[:] = [lent.retain()]

    kept: list[tw.TimestampToken] = []
    with deploy(flow_of(scheduled(keep_for_a_while), "brief"), 3, progress) as job:
        held_back = False
        for number in range(6):
            job.input("numbers").send([number])
            settle(job)
            held_back = held_back or any(core._progress.unsent() for core in job._cores)
            explanation = job.explain("done")
            assert texts(explanation)[0] == "input 'numbers' is at time 0 on workers 0, 1, 2"
            [brief] = explanation.holders[1:]
            assert brief.what.startswith(f"operator 'brief' holds 1 token for time 0 on worker {number % 3} (waits")
        assert held_back
        job.stop()


@every_spread
def test_the_error_of_a_job_that_is_stuck_explains_it(progress: SpreadName) -> None:
    """On the local engine waiting in vain is an error, and the error says why."""
    kept: list[tw.TimestampToken] = []
    with deploy(flow_of(hoarding(kept), "leaky"), 2, progress) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        with raises(tw.JobError):
            job.wait(DEADLINE_S)
        job.stop()


# ---------------------------------------------------------------------- messages that nobody reads


@every_spread
def test_messages_left_unread(progress: SpreadName) -> None:
    """Their number, input, time and worker are named; where they are read they are not counted."""
    deaf = reading(lambda worker: worker == 0)
    with deploy(flow_of(deaf, "deaf"), 2, progress) as job:
        for number in range(4):
            job.input("numbers").send([number])
        job.input("numbers").close()
        settle(job)
        [holder] = job.explain("done").holders
        assert holder.what == "2 messages at time 0 at input 0 of 'deaf' on worker 1, unread"
        assert words(holder) == ("deaf", 0, (1,), ("deaf",), ONCE_UNCHANGED, 0)
        assert "'deaf' returned without reading them" in holder.advice
        job.stop()


@every_spread
def test_unread_messages_are_no_more_once_they_are_read(progress: SpreadName) -> None:
    """`context.activate()`, which the advice names, brings the operator back, and then the frontier moves."""
    contexts: list[tw.OperatorContext] = []
    willing: list[bool] = []

    def build(context: tw.OperatorContext) -> Schedule:
        contexts.append(context)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for _ in input if willing else ():
                pass

        return schedule

    with deploy(flow_of(build, "slow"), 1, progress) as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(1)
        settle(job)
        assert "context.activate()" in job.explain("done").holders[0].advice
        willing.append(True)
        contexts[0].activate()
        assert "takes them when it runs next" in job.explain("done").holders[0].advice
        job.probe("done").wait_until(1, DEADLINE_S)
        job.stop()


# ---------------------------------------------------------------------- loops that do not end


@every_spread
def test_a_loop_that_never_ends(progress: SpreadName) -> None:
    """What goes round is named with its round and how its time comes out; after very many rounds, what to look at."""
    with deploy(endless(), 2, progress) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        for rounds in (50, 2500):
            for _ in range(rounds):
                assert job.run_round()
            explanation = job.explain("done")
            assert list(explanation.frontier) == [0]
            [holder] = explanation.holders
            assert holder.operator in {"ring/feedback", "ring/exchange", "ring/concat"}
            outer, round_number = holder.time
            assert (outer, holder.arrives) == (0, 0)
            assert round_number >= rounds // 3
            assert f"in round {round_number} of its loop" in holder.what
            assert holder.path.describe() == "(t, r) becomes t"
            assert holder.route[-2:] == ("ring/filter", "leave")
            assert ("see that what the loop feeds back gets less" in holder.what) == (round_number >= 1000)
        job.stop()


# ---------------------------------------------------------------------- operators without inputs, and jobs not started


@every_spread
def test_an_operator_without_inputs_that_keeps_its_initial_token(progress: SpreadName) -> None:
    """It has no input that could be behind: it has more to send, or forgot."""
    kept: list[tw.TimestampToken] = []
    with deploy(ticking(kept), 2, progress) as job:
        settle(job)
        [holder] = job.explain("done").holders
        assert holder.what == "operator 'ticker' holds 2 tokens for time 0 on workers 0, 1"
        assert words(holder) == ("ticker", 0, (0, 1), ("ticker", "map"), ONCE_UNCHANGED, 0)
        assert "has no inputs: it has more to send, or forgot to downgrade() or discard()" in holder.advice
        kept[0].discard()
        kept[1].downgrade(2)
        settle(job)
        assert texts(job.explain("done")) == ["operator 'ticker' holds 1 token for time 2 on worker 1"]
        kept[1].discard()
        job.wait(DEADLINE_S)


@every_spread
def test_a_job_that_was_not_started(progress: SpreadName) -> None:
    """That it is paused is said, and it is said no more after `start`."""
    with deploy(straight(), 2, progress, paused=True) as job:
        job.input("numbers").send([1])
        explanation = job.explain("done")
        assert list(explanation.frontier) == [0]
        [note] = explanation.notes
        assert "paused=True" in note
        assert "call start()" in note
        assert str(explanation).endswith(note)
        job.start()
        settle(job)
        assert job.explain("done").notes == ()
        job.stop()


def test_a_local_job_that_has_work_to_do_says_that_nobody_runs_it() -> None:
    """On the local engine nothing happens between calls, which who does not know it takes for a hang."""
    with deploy(straight()) as job:
        job.input("numbers").send([1])
        [note] = job.explain("done").notes
        assert "only runs while the driver waits for something" in note
        settle(job)
        assert job.explain("done").notes == ()
        job.stop()


# ---------------------------------------------------------------------- who waits for whom


@every_spread
def test_those_who_wait_for_others_come_after_them(progress: SpreadName) -> None:
    """An operator keeps tokens for a time of which more can come; the input alone can do something about it."""
    kept: list[tw.TimestampToken] = []
    with deploy(flow_of(hoarding(kept), "hoarder"), 2, progress) as job:
        for _ in range(2):
            job.input("numbers").send([1])
        settle(job)
        explanation = job.explain("done")
        assert [holder.operator for holder in explanation.holders] == ["input numbers", "hoarder"]
        first, *others = explanation.holders
        assert first.advice
        assert not first.what.endswith("(waits for the above)")
        assert all(other.what.endswith(" (waits for the above)") and not other.advice for other in others)
        job.stop()


@every_spread
def test_two_that_do_not_wait_for_each_other_are_both_causes(progress: SpreadName) -> None:
    """A leak before a join and unread messages on its other side are both told in full."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("two")
    left = flow.input("left").unary(hoarding(kept), name="leaky")
    right = flow.input("right").unary(reading(lambda worker: False), name="deaf")
    left.concat(right).probe("done")
    with deploy(flow, 1, progress) as job:
        for name in ("left", "right"):
            job.input(name).send([1])
            job.input(name).close()
        settle(job)
        explanation = job.explain("done")
        assert {holder.operator for holder in explanation.holders} == {"leaky", "deaf"}
        assert all(holder.advice for holder in explanation.holders)
        assert all(holder.route[-1] == "concat" for holder in explanation.holders)
        job.stop()


# ---------------------------------------------------------------------- what cannot be explained


def test_unknown_names_are_refused() -> None:
    """The error has the probes and topics that there are; inputs, captures and operators are none."""
    flow = straight()
    flow.input("more").publish("news")
    with deploy(flow) as job:
        for name in ("dune", "numbers", "map"):
            said = rf"no probe, topic or capture '{name}'; it has \['done', 'news', 'results'\]"
            with pytest.raises(tw.JobError, match=said):
                job.explain(name)
        job.stop()


def test_a_job_that_failed_raises_its_error() -> None:
    """There is nothing to explain any more but why it failed."""
    flow = tw.Dataflow("division")
    flow.input("numbers").map(lambda number: 1 // number).probe("done")
    job = deploy(flow)
    job.input("numbers").send([0])
    with raises(tw.JobError):
        settle(job)
    with raises(tw.JobError):
        job.explain("done")
    with raises(tw.JobError):
        job.statistics()
    job.stop()


def test_a_job_that_was_stopped_is_not_explained() -> None:
    """The error says to ask inside the block."""
    with deploy(straight()) as job:
        job.stop()
    with raises(tw.JobError):
        job.explain("done")
    with raises(tw.JobError):
        job.statistics()
