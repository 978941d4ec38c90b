"""Substreams of a job that is started again: open keys stay open, and each end is told once."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.snapshot_group import SnapshotGroup
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.messages.envelope import Envelope, InputCommand, Message
from tidewheel.runtime.messages.news import SubstreamNews
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER

SELDOM_S = 1000.0
LETTERS = "abc"


def halve(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    moved = walks.exchange(lambda walk: walk[1]).map(lambda walk: (walk[0], walk[1] // 2))
    return moved.filter(lambda walk: walk[1] > 0), moved


def walking(name: str = "walks", *before: str) -> tw.Dataflow:
    """Return a dataflow that says how many steps the walks of each key had."""
    flow = tw.Dataflow("walking")
    for other in before:
        flow.input(other).substreams(other, key=str).collect_substream(lambda key, _: key, name=f"collect {other}")
    walks = flow.input("walks").substreams(name, key=lambda walk: walk[0])
    walks.iterate(halve).collect_substream(lambda key, steps: (key, len(steps))).probe("answered").capture("lengths")
    return flow


def run(flow: tw.Dataflow, folder: Path, workers: int = 2) -> tw.types.Job:
    return tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(folder, every_s=SELDOM_S))


def lengths(job: tw.types.Job) -> list[Any]:
    return sorted((one.time, *row) for one in job.captured("lengths") for row in one.batch)


def stopped_midway(folder: Path) -> None:
    """Run a job in which one key has ended, one is open, and stop it."""
    with run(walking(), folder) as job:
        walks = job.input("walks")
        walks.send([("a", 9), ("b", 5)])
        walks.end_substream("a")
        job.stop(snapshot=True)


def test_an_open_key_stays_open(tmp_path: Path) -> None:
    """What came of it before belongs to the same substream as what comes after, and a key that has ended comes again.

    The position says how often substreams were ended.
    """
    stopped_midway(tmp_path)
    with run(walking(), tmp_path) as job:
        walks = job.input("walks")
        assert walks.position == tw.types.InputPosition(0, 1, 2, batches_at_time=1, ends=1)
        walks.send([("b", 3)])
        walks.end_substream("b")
        walks.advance_to(1)
        walks.send([("a", 1)])
        walks.close()
        job.wait()
        assert lengths(job) == [(0, "a", 4), (0, "b", 5), (1, "a", 1)]


def test_a_key_that_has_ended_is_refused_as_before(tmp_path: Path) -> None:
    """At the time at which it has ended."""
    stopped_midway(tmp_path)
    refused = raises(tw.JobError)
    with refused, run(walking(), tmp_path) as job:
        job.input("walks").send([("a", 1)])
        job.input("walks").close()
        job.wait()


@pytest.mark.parametrize("workers", [1, 3])
def test_substreams_go_on_with_another_number_of_workers(tmp_path: Path, workers: int) -> None:
    """An open key stays open on all of them, and one that has ended comes again."""
    stopped_midway(tmp_path)
    with run(walking(), tmp_path, workers=workers) as job:
        walks = job.input("walks")
        walks.send([("b", 3)])
        walks.end_substream("b")
        walks.advance_to(1)
        walks.send([("a", 1)])
        walks.close()
        job.wait()
        assert lengths(job) == [(0, "a", 4), (0, "b", 5), (1, "a", 1)]


def test_substreams_keep_their_names_and_places(tmp_path: Path) -> None:
    """As labels of saved records have their numbers."""
    stopped_midway(tmp_path)
    for changed in (walking("paths"), walking("walks", "others")):
        with raises(tw.TidewheelError):
            run(changed, tmp_path)


def _for_all(told: list[Any], workers: int) -> list[list[Any]]:
    return [told.copy() for _ in range(workers)]


def told_of_ends(context: tw.OperatorContext) -> Schedule:
    """Build an operator that keeps the keys of whose ends it is told, and no token."""
    told: list[Any] = context.state("told", list, split=_for_all, merge=lambda one, other: min(one, other, key=len))

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            output.send(token, batch)
        told.extend(input.ended)

    return schedule


@pytest.mark.parametrize("seed", range(40))
def test_each_end_is_told_once(seed: int) -> None:
    """To operators that keep nothing else of a key, on each worker, wherever the snapshot falls; at the end, too.

    Ends, records and news are on their way then; keys that the stream's end ends are known by nothing but the gates.
    """
    random = Random(seed)
    flow = tw.Dataflow("told")
    letters = flow.input("letters").substreams("letters", key=lambda letter: letter)
    near = letters.unary(
        told_of_ends, bound=random.choice(("soft", "firm")), ordered=random.random() < 0.5, name="near"
    )
    near.exchange(str).unary(told_of_ends, bound="soft", name="far")
    group = SnapshotGroup(flow, random.randint(1, 3), random)
    group.send("letters", list(LETTERS))
    end = random.sample(LETTERS, random.randint(0, 3))
    for worker in range(len(group.cores)) if end else ():
        group.tell(worker, commands=[InputCommand("letters", "end", batch=end)])
    is_closed = random.random() < 0.5
    if is_closed:
        group.close("letters")
    for _ in range(2):
        group.run_for(6)
        group.take_snapshot()
        group.run_for(3)
        group = group.gone_on(random.choice((len(group.cores), random.randint(1, 3))))
    if not is_closed:
        group.close("letters")
    group.finish()
    told = [one.kept.states["told"] for core in group.cores for one in core._instances if one.name in {"near", "far"}]
    assert all(sorted(keys) == list(LETTERS) for keys in told), f"with seed {seed}: {told}"


@pytest.mark.parametrize("seed", range(40))
def test_nothing_of_a_substream_is_missed(seed: int) -> None:
    """Its owner has closed it, and other workers have messages of it, or tokens: it ends when these are gone."""
    random = Random(seed)
    flow = tw.Dataflow("owned")
    rows = [(key, number) for key in range(4) for number in range(5)]
    divided = flow.input("rows").map(tuple).substreams("rows", lambda row: row[0], last=lambda row: row[1] == 4)
    scattered = divided.exchange(lambda row: row[0] * 5 + row[1])
    scattered.iterate(lambda left: (left.filter(lambda row: row[1] < 0), left)).collect_substream(
        lambda key, found: (key, len(found))
    ).capture("found")
    group = SnapshotGroup(flow, random.randint(2, 3), random)
    group.send("rows", rows, worker=0)
    for _ in range(3):
        group.run_for(3)
        group.take_snapshot()
        group.run_for(3)
        group = group.gone_on(random.choice((len(group.cores), random.randint(1, 3))))
    group.close("rows")
    group.finish()
    found = sorted(row for _, batch in group.captured("found") for row in batch)
    assert found == [(key, 5) for key in range(4)], f"with seed {seed}"


def test_what_waits_for_an_announcement_is_late() -> None:
    """A worker holds back an envelope when it takes its part, and applies it afterwards: so the part has it."""
    flow = tw.Dataflow("held back")
    flow.input("words").substreams("words", key=str).collect_substream(lambda key, _: key)
    core = WorkerCore(description_of(flow).plan(), 1, 3, is_tracked=True)
    [location] = core._ports
    message = Message(location, 0, ["x"], 0, 2, (0, "x"))
    core.receive(Envelope(2, 0, 0, [message], heard=1))
    core.receive(Envelope(DRIVER, 0, 0, snapshot=1))
    core.receive(Envelope(2, 0, 1, heard=1, snapshot=1))
    core.receive(Envelope(0, 0, 0, substreams=SubstreamNews(over={0: ["x"]})))
    assert not core.memory.parts
    core.receive(Envelope(0, 0, 1, snapshot=1))
    [part] = core.memory.parts
    collect = next(one for name, one in part.operators.items() if name.startswith("collect"))
    assert collect.unread == [[(0, ["x"], (0, "x"))]]
    gate = part.operators["input words"].substreams
    assert gate is not None
    assert gate.gate is not None
    assert gate.gate.over == ["x"]


def sorting(ends: list[str], **predicates: Any) -> tw.Dataflow:
    """Return a dataflow that divides numbers by predicates, and notes the ends that each worker is told."""

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in input:
                output.send(token, batch)
            ends.extend(input.ended)

        return schedule

    flow = tw.Dataflow("sorting")
    numbers = flow.input("numbers").substreams("sorts", predicates=predicates)
    numbers.unary(build, bound="soft", name="told").inspect(str)
    return flow


def is_even(number: int) -> bool:
    return number % 2 == 0


def is_odd(number: int) -> bool:
    return number % 2 == 1


def is_huge(number: int) -> bool:
    return number > 10**9


@pytest.mark.parametrize("number", [4, 5])
def test_predicates_that_are_new_since_the_snapshot(tmp_path: Path, number: int) -> None:
    """Their substreams are open, as all by name are from the beginning: each end is told, also without a record."""
    ends: list[str] = []
    with run(sorting([], even=is_even), tmp_path) as job:
        job.input("numbers").send([2, number])
        job.stop(snapshot=True)
    with run(sorting(ends, even=is_even, odd=is_odd, huge=is_huge), tmp_path) as job:
        numbers = job.input("numbers")
        numbers.send([3])
        numbers.end_substream("even")
        numbers.close()
        job.wait()
    assert sorted(ends) == sorted(2 * ["even", "huge", "odd"])


def test_predicates_that_the_program_has_no_more(tmp_path: Path) -> None:
    """What came of them before belongs to them still, and they end with the stream. The program cannot end them."""
    ends: list[str] = []
    with run(sorting([], even=is_even, odd=is_odd), tmp_path) as job:
        job.input("numbers").send([2, 3])
        job.stop(snapshot=True)
    with run(sorting(ends, even=is_even), tmp_path) as job:
        numbers = job.input("numbers")
        numbers.send([5])
        numbers.close()
        job.wait()
    assert sorted(ends) == sorted(2 * ["even", "odd"])
    refused = raises(tw.JobError)
    with refused, run(sorting(ends, even=is_even), tmp_path) as job:
        numbers = job.input("numbers")
        numbers.end_substream("odd")
        numbers.close()
        job.wait()


@pytest.mark.parametrize("seed", range(40))
def test_names_find_their_records_on_other_workers(seed: int) -> None:
    """Each record comes once for each name, though each worker has read its own copy of it, and as far as it has."""
    random = Random(seed)
    flow = tw.Dataflow("named")
    names = {str(digit): lambda number, digit=digit: number % 5 == digit for digit in range(4)}
    divided = flow.input("numbers").map(int).substreams("names", predicates=names)
    divided.collect_substream(lambda name, found: (name, sorted(found))).capture("found")
    divided.without_substreams().capture("all")
    group = SnapshotGroup(flow, 2, random)
    for _ in range(3):
        group.send("numbers", list(range(10)))
        group.run_for(3)
        group.take_snapshot()
        group = group.gone_on(random.randint(1, 3))
    group.close("numbers")
    group.finish()
    found = sorted(row for _, batch in group.captured("found") for row in batch)
    assert found == [(str(digit), [digit] * 3 + [digit + 5] * 3) for digit in range(4)], f"with seed {seed}"
    assert sorted(row for _, batch in group.captured("all") for row in batch) == sorted([*range(10)] * 3)


Totals: TypeAlias = dict[str, tuple[tw.TimestampToken, Any]]


def summed(held: Totals) -> Totals:
    return {key: (token, sum(numbers)) for key, (token, numbers) in held.items()}


def merged(one: Totals, other: Totals) -> Totals:
    """Return in one what two workers had; of two tokens for a key it needs one."""
    return other | {key: (token, total + other.get(key, (token, 0))[1]) for key, (token, total) in one.items()}


def totals(found: list[Any], *, is_new: bool) -> tw.Dataflow:
    """Return a dataflow that adds up the numbers of each key; the old program keeps them all, the new one their sum."""

    def build(context: tw.OperatorContext) -> Schedule:
        held: Totals = context.state(
            "held",
            dict,
            split=lambda held, workers: [None] * (workers - 1) + [held],
            merge=merged,
            migrate=[summed] if is_new else [],
        )
        seen = context.keyed_state("seen", migrate=[lambda number: number * 10] if is_new else [])

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                for _, number in batch:
                    if number in seen:
                        found.append(seen[number])
                    seen[number] = number
                    more: Any = number if is_new else [number]
                    before: Any
                    token, before = held.pop(lent.key) if lent.key in held else (lent.retain(), type(more)())
                    held[lent.key] = token, before + more
            for key in input.ended:
                if key in held:
                    token, total = held.pop(key)
                    with token:
                        output.send(token, [(key, total)])

        return schedule

    flow = tw.Dataflow("totals")
    rows = flow.input("rows").substreams("rows", key=lambda row: row[0])
    rows.unary(build, exchange=lambda row: row[1], bound="soft", name="add").capture("totals")
    return flow


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_states_of_substreams_are_divided_and_converted(workers: int) -> None:
    """A state with tokens of substreams, and one by key, go on in a new form, on as many workers, more or fewer."""
    group = SnapshotGroup(totals([], is_new=False), 2, Random(0))
    group.send("rows", [("a", number) for number in range(10)] + [("b", 100)])
    group.run()
    group.take_snapshot()
    found: list[Any] = []
    group = group.gone_on(workers, totals(found, is_new=True))
    group.send("rows", [("a", 3), ("a", 11), ("b", 100)])
    for worker in range(workers):
        group.tell(worker, commands=[InputCommand("rows", "end", batch=["a"])])
    group.close("rows")
    group.finish()
    parts = Counter[str]()
    for _, batch in group.captured("totals"):
        parts.update(dict(batch))
    assert parts == {"a": 45 + 3 + 11, "b": 200}
    assert sorted(found) == [30, 1000]
