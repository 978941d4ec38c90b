"""Random programs of collections over random histories, against plain Python on the input of each epoch."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.collections.odd_programs import ODD, OddHistory, fits_a_table, odd_histories, plain_records, rounded
from tests.kit.collections.plain_collection import PlainCollection
from tests.kit.collections.programs import INPUTS, Change, Program, histories, inputs_at, interpret, programs
from tests.kit.collections.replaced_workers import NAMES, replaced
from tests.kit.runtime.snapshot_group import SnapshotGroup, UnevenGroup
from tests.laws.strategies import law_settings
from tidewheel.batches.one_nan import with_one_nan
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
) -> list[tw.types.Captured]:
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
                job.probe("done").wait_until(change.epoch, timeout_s=DEADLINE_S)
            handles[change.input].send(change.updates, worker=change.worker % workers)
        for handle in handles:
            handle.close()
        job.wait(DEADLINE_S)
        return list(job.captured("changes"))


def check(program: Program, history: Sequence[Change], captured: Sequence[tw.types.Captured]) -> None:
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


def changes_of(
    program: Program, history: OddHistory, workers: int, seed: int | None, *, as_tables: bool
) -> list[tuple[int, list[tuple[Any, int]]]]:
    """Return the changes of each epoch of a program over odd records, as plain values.

    Args:
        program: the program.
        history: the changes of its inputs.
        workers: how many there are.
        seed: decides when workers are replaced by others that go on from snapshots; None if they are not.
        as_tables: whether the changes of the result are tables, and else lists.
    """
    flow = tw.Dataflow("program")
    streams = [flow.input(name) for name in NAMES]
    inputs = [history.described(number, stream) for number, stream in enumerate(streams)]
    changes = interpret(program, inputs, language=ODD).changes(columns=["key", "value"] if as_tables else False)
    changes.capture("changes")
    batches = [(change, history.batch(change)) for change in history.changes]
    if seed is not None:
        kind = Random(seed).choice((SnapshotGroup, UnevenGroup))
        return [(at, plain_records(one)) for at, one in replaced(flow, batches, kind, workers, Random(seed))]
    with tw.run(flow, workers=workers, engine="local") as job:
        handles = [job.input(name) for name in NAMES]
        for change, batch in batches:
            for handle in handles:
                handle.advance_to(change.epoch)
            handles[change.input].send(batch, worker=change.worker % workers)
        for handle in handles:
            handle.close()
        job.wait(DEADLINE_S)
        return [(one.time, plain_records(one.batch)) for one in job.captured("changes")]


def expected(program: Program, history: OddHistory) -> list[Counter[Any]] | str:
    """Return the records of the result at each epoch; the text of an error if plain Python cannot compute them."""
    found = []
    for epoch in range(max(change.epoch for change in history.changes) + 1):
        inputs = [PlainCollection(counts) for counts in inputs_at(history.changes, epoch)]
        try:
            found.append(Counter(interpret(program, inputs, language=ODD).counts))
        except TypeError as error:
            return str(error)
    return found


def check_odd(program: Program, history: OddHistory, workers: int, seed: int | None, *, as_tables: bool) -> str:
    """Compare each epoch of a program over odd records with plain Python; return what kind of result it has."""
    wanted = expected(program, history)
    try:
        changes = changes_of(program, history, workers, seed, as_tables=as_tables)
    except tw.JobError as error:
        kind = _error_that_is_right(str(error), wanted, history, as_tables=as_tables)
        if kind is None:
            raise
        return kind
    assert not isinstance(wanted, str), f"plain Python raises {wanted}"
    present: Counter[Any] = Counter()
    for epoch, counts in enumerate(wanted):
        for record, count in (change for at, some in changes if at == epoch for change in some):
            present[with_one_nan(record)] += count
        found = {record: count for record, count in present.items() if count}
        if found != counts:  # a sum of whole numbers is one of floats where all of them are floats
            assert Counter(map(rounded, found)) == Counter(map(rounded, counts)), f"at epoch {epoch}"
            assert sorted(found.values()) == sorted(counts.values())
    return "equal, with records" if any(wanted) else "equal, without records"


def _error_that_is_right(
    said: str, wanted: list[Counter[Any]] | str, history: OddHistory, *, as_tables: bool
) -> str | None:
    """Return what kind of error a program fails with, None if it ought not to fail so."""
    if history.has_large_counts and "needs more than 64 bits" in said:
        return "a count of more than 64 bits"
    if isinstance(wanted, str):
        is_right = "have no order" in said or "cannot be added up" in said
        return "values that do not go together" if is_right else None
    records = [record for counts in wanted for record in counts]
    if as_tables and "has values that are not of one type" in said and not fits_a_table(records):
        return "no table"
    return None


ODD_CASES = {
    "program": programs(language=ODD),
    "history": odd_histories(),
    "workers": st.sampled_from((1, 2, 3)),
    "seed": st.one_of(st.none(), st.integers(0, 2**32)),
    "as_tables": st.booleans(),
}


@law_settings(50)
@given(**ODD_CASES)
def test_odd_records_are_what_plain_python_says(
    program: Program, history: OddHistory, workers: int, seed: int | None, as_tables: bool
) -> None:
    """Large numbers and counts, NaN, None, several types; lists and columns; workers that are replaced by others."""
    event(check_odd(program, history, workers, seed, as_tables=as_tables))


@pytest.mark.long
@law_settings(3000)
@given(**ODD_CASES)
def test_many_odd_records_are_what_plain_python_says(
    program: Program, history: OddHistory, workers: int, seed: int | None, as_tables: bool
) -> None:
    """The same, many times over."""
    event(check_odd(program, history, workers, seed, as_tables=as_tables))


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
