"""Random programs of collections over random histories, against plain Python on the input of each epoch."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.collections.plain_collection import PlainCollection
from tests.kit.collections.programs import INPUTS, Change, Program, histories, inputs_at, interpret, programs
from tests.laws.strategies import law_settings
from tidewheel.differential import batch, joining, key_set, updates
from tidewheel.operators.collections import builds

DEADLINE_S = 60.0


def run(
    program: Program,
    history: Sequence[Change],
    workers: int,
    *,
    at_once: bool,
    engine: Literal["local", "ray"] = "local",
) -> list[tw.Captured]:
    """Run a program, with all epochs sent at once or one after the other; return the changes of its result."""
    flow = tw.Dataflow("program")
    inputs = [flow.input(f"input {number}").as_collection(diff=True) for number in range(INPUTS)]
    interpret(program, inputs).changes().probe("done").capture("changes")
    with tw.run(flow, workers=workers, engine=engine) as job:
        handles = [job.input(f"input {number}") for number in range(INPUTS)]
        for change in history:
            for handle in handles:
                handle.advance_to(change.epoch)
            if not at_once:
                job.probe("done").wait_until(change.epoch, timeout=DEADLINE_S)
            handles[change.input].send(change.updates, worker=change.worker % workers)
        for handle in handles:
            handle.close()
        job.wait(DEADLINE_S)
        return list(job.captured("changes"))


def check(program: Program, history: Sequence[Change], captured: Sequence[tw.Captured]) -> None:
    """Compare the sum of all changes until each epoch with plain Python."""
    for epoch in range(max(change.epoch for change in history) + 1):
        found: Counter[Any] = Counter()
        for one in captured:
            if one.time <= epoch:
                for record, count in one.batch:
                    found[record] += count
        inputs = [PlainCollection(counts) for counts in inputs_at(history, epoch)]
        expected = interpret(program, inputs).counts
        assert {record: count for record, count in found.items() if count} == expected, f"at epoch {epoch}"
    changed = [(one.time, record) for one in captured for record, _ in one.batch]
    assert len(changed) == len(set(changed)), "a record changes once at a time, by no more than one update"
    assert all(count for one in captured for _, count in one.batch), "no update is of nothing"


@law_settings(60)
@given(programs(), histories(), st.sampled_from((1, 2, 4)), st.booleans())
def test_each_epoch_is_what_plain_python_says(
    program: Program, history: list[Change], workers: int, at_once: bool
) -> None:
    """Any program, loops in loops included, any changes, on any number of workers."""
    check(program, history, run(program, history, workers, at_once=at_once))


@pytest.fixture
def few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have operators encode, hold and look at a few updates at a time, as they do with millions."""
    for module in (updates, builds):
        monkeypatch.setattr(module, "MOST_ROWS", 2)
    for module in (joining, key_set):
        monkeypatch.setattr(module, "MOST_KEYS", 1)
    monkeypatch.setattr(batch, "MOST_INDEXED", 0)
    monkeypatch.setattr(batch, "_MOST_PLACES", 0)


@pytest.mark.usefixtures("few_rows_at_once")
@law_settings(20)
@given(programs(4), histories(), st.sampled_from((1, 2)), st.booleans())
def test_programs_that_work_in_parts_are_what_plain_python_says(
    program: Program, history: list[Change], workers: int, at_once: bool
) -> None:
    """The same where epochs are so large that operators take them in parts."""
    check(program, history, run(program, history, workers, at_once=at_once))


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
@law_settings(15)
@given(programs(7), histories(), st.sampled_from((1, 2, 4)), st.booleans())
def test_programs_on_ray_are_what_plain_python_says(
    program: Program, history: list[Change], workers: int, at_once: bool
) -> None:
    """The same with workers that run side by side."""
    check(program, history, run(program, history, workers, at_once=at_once, engine="ray"))


@pytest.mark.long
@law_settings(1000)
@given(programs(7), histories(6), st.sampled_from((1, 2, 4)), st.booleans())
def test_larger_programs_are_what_plain_python_says(
    program: Program, history: list[Change], workers: int, at_once: bool
) -> None:
    """The same, many times over."""
    check(program, history, run(program, history, workers, at_once=at_once))
