"""A newer program, or a wrong one, that goes on from a snapshot: what fits does, what does not is refused clearly."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.behaviour.runtime.test_snapshots import begin, counting, counts, running_total
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import settle
from tidewheel.runtime.snapshots import heartbeat


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a snapshot of two words, taken when they were counted."""
    with begin(tmp_path / "snapshots") as job:
        job.input("words").send(["a", "b"])
        job.input("words").advance_to(1)
        job.probe("done").wait_until(1)
        job.stop(snapshot=True)
    return tmp_path / "snapshots"


def test_another_dataflow_is_refused(folder: Path) -> None:
    """By its name; the folder is free afterwards."""
    with pytest.raises(tw.errors.SnapshotError) as error:
        begin(folder, counting("other"))
    assert str(error.value) == (
        f"snapshot 1 in {folder} is of dataflow 'counting', and not of 'other': use another folder"
    )
    begin(folder).stop()


def test_a_missing_operator_is_refused_unless_it_is_allowed(folder: Path) -> None:
    """The message has the remedy, which works: what the operator had is gone."""

    def flow() -> tw.Dataflow:
        made = tw.Dataflow("counting")
        words = made.input("words")
        words.unary(running_total, exchange=lambda word: word, name="sum").probe("done").capture("counts")
        return made

    with pytest.raises(tw.errors.SnapshotError) as error:
        begin(folder, flow())
    assert str(error.value) == (
        f"dataflow 'counting' has no operator 'count', and snapshot 1 in {folder} has: give the operator or "
        "input that name. To go on without what it had, run with Snapshots(..., without=['count'])"
    )
    with begin(folder, flow(), without=["count"]) as job:
        job.input("words").send(["a"])
        job.input("words").close()
        job.wait()
        assert counts(job) == Counter({(0, ("a", 1)): 1, (0, ("b", 1)): 1, (1, ("a", 1)): 1})


def test_new_operators_and_inputs_begin_empty(folder: Path) -> None:
    """Beside those that go on; the new input is open, though the snapshot has none of it."""

    def flow() -> tw.Dataflow:
        made = counting()
        more = made.input("more")
        more.unary(running_total, exchange=lambda word: word, name="count more").capture("more counts")
        return made

    for expected in (1, 2):
        with begin(folder, flow()) as job:
            more = job.input("more")
            assert not more.is_closed
            assert more.position.batches == expected - 1
            more.send(["a"])
            job.stop(snapshot=True)
    with begin(folder, flow()) as job:
        job.input("words").send(["a"])
        job.input("words").close()
        job.input("more").close()
        job.wait()
        assert counts(job) == Counter({(0, ("a", 1)): 1, (1, ("a", 2)): 1, (0, ("b", 1)): 1})
        assert counts(job, "more counts") == Counter({(0, ("a", 1)): 1, (0, ("a", 2)): 1})


@pytest.mark.parametrize("stages", [1, 2, 5])
def test_operators_without_state_come_and_go(stages: int, tmp_path: Path) -> None:
    """They run as one with others, whose name changes with them; a snapshot has nothing of theirs."""

    def flow(stages: int) -> tw.Dataflow:
        made = tw.Dataflow("counting")
        words: Any = made.input("words")
        for _ in range(stages):
            words = words.map(str)
        words.unary(running_total, exchange=lambda word: word, name="count").capture("counts")
        return made

    with begin(tmp_path / "s", flow(3)) as job:
        job.input("words").send(["a"])
        for _ in range(5):
            job.run_round()  # type: ignore[attr-defined]
        job.stop(snapshot=True)
    with begin(tmp_path / "s", flow(stages)) as job:
        job.input("words").send(["a"])
        job.input("words").close()
        job.wait()
        assert counts(job) == Counter({(0, ("a", 1)): 1, (0, ("a", 2)): 1})


def test_two_jobs_cannot_use_one_folder(folder: Path) -> None:
    """The second is told which one does; once that is stopped, it may."""
    with begin(folder) as job:
        with pytest.raises(tw.errors.SnapshotError, match=f"{folder} belongs to job '{job.name}'.* which is running"):
            begin(folder)
        job.snapshot()
        job.stop()
    begin(folder).stop()


def test_a_job_whose_folder_another_one_has_claimed_fails(folder: Path) -> None:
    """Else it would go on for ever without a snapshot that counts."""
    with pytest.MonkeyPatch.context() as patch:
        job = begin(folder)
        patch.setattr(heartbeat, "beats", lambda *_: False)
        with begin(folder) as other:
            with pytest.raises(tw.errors.SnapshotError, match=f"{other.name}.* has claimed the folder"):
                job.snapshot()
            with pytest.raises(tw.errors.SnapshotError, match="has claimed the folder"):
                job.input("words").send(["c"])
            other.snapshot()
            other.stop()
        job.stop()


def test_a_state_that_is_not_asked_for_is_named(folder: Path) -> None:
    """An operator of the same name that keeps something else."""

    def ignore(context: tw.OperatorContext) -> Any:
        return lambda input, output: None

    flow = tw.Dataflow("counting")
    flow.input("words").unary(ignore, exchange=lambda word: word, name="count").probe("done").capture("counts")
    with raises(tw.JobError):
        begin(folder, flow)
    begin(folder).stop()


def totals(form: int) -> tw.Dataflow:
    """Keep totals by key and a count of batches; programs of a later form keep more in each."""
    as_list = [lambda total: [total], lambda kept: {"total": kept[0]}][:form]
    counted = [lambda batches: (batches, "batches")][:form]

    def build(context: tw.OperatorContext) -> Any:
        kept = context.keyed_state("totals", migrate=as_list)
        batches: Any = context.state("batches", dict, split=lambda state, n: [state] * n, merge=max, migrate=counted)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for token, words in input:
                if not form:
                    kept.update(dict.fromkeys(words, 1))
                output.send(token, [(word, kept.get(word)) for word in words] + [("batches", batches)])

        return schedule

    flow = tw.Dataflow("totals")
    flow.input("words").unary(build, exchange=lambda pair: pair[0], name="keep").probe("done").capture("kept")
    return flow


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize(
    ("forms", "total"), [([1], [1]), ([2], {"total": 1}), ([1, 1, 2], {"total": 1})], ids=["one", "two", "in turn"]
)
def test_a_state_of_an_older_form_is_converted(forms: list[int], total: Any, workers: int, tmp_path: Path) -> None:
    """By each function that the snapshot does not have behind it, once, also among other workers."""
    with begin(tmp_path / "s", totals(0)) as job:
        job.input("words").send(["a", "b"])
        settle(job)
        job.stop(snapshot=True)
    found: dict[str, Any] = {}
    for time, form in enumerate(forms, 1):
        with begin(tmp_path / "s", totals(form), workers=workers) as job:
            job.input("words").advance_to(time)
            job.input("words").send(["a"])
            settle(job)
            (found,) = (dict(one.batch) for one in job.captured("kept") if one.time == time)
            job.stop(snapshot=True)
    assert (found["a"], found["batches"]) == (total, ({}, "batches"))


def test_a_state_that_cannot_be_converted_is_named(tmp_path: Path) -> None:
    """A newer form than the program has, and a function that fails: by operator, state and remedy."""
    with begin(tmp_path / "s", totals(1)) as job:
        job.stop(snapshot=True)
    newer = r"operator 'keep' keeps '\w+' in format 1 in the snapshot, and its build function has 0 functions in migr"
    with pytest.raises(tw.JobError, match=newer):
        begin(tmp_path / "s", totals(0))

    def build(context: tw.OperatorContext) -> Any:
        context.keyed_state("totals", migrate=[len])
        context.state("batches", dict, migrate=[len, lambda kept: kept["no such"]])
        return lambda input, output: None

    flow = tw.Dataflow("totals")
    flow.input("words").unary(build, exchange=lambda pair: pair[0], name="keep").probe("done").capture("kept")
    expected = r"operator 'keep' cannot convert 'batches' from format 1 by function 1 of migrate=: KeyError"
    with pytest.raises(tw.JobError, match=expected):
        begin(tmp_path / "s", flow)
