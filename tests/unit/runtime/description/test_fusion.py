"""Fusion: which operators become one, and that nothing else changes by it."""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import LISTS, Case, bags, cases, expected, run
from tests.kit.runtime.one_operator import DEADLINE_S, captured, feed, ignore, scheduled
from tests.kit.runtime.stuck_flows import deploy, reading
from tests.laws.strategies import law_settings
from tidewheel.progress import CompiledGraph
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.fusion import fuse

Describe = Callable[[tw.Stream[Any]], object]


def operators_of(describe: Describe) -> list[str]:
    """Return the names of the operators that run, for an input and what is put after it."""
    flow = tw.Dataflow("fusing")
    describe(flow.input("in"))
    return [operator.name for operator in description_of(flow).plan().operators]


def same(batch: Any) -> Any:
    return batch


@pytest.mark.parametrize(
    ("describe", "operators"),
    [
        (lambda s: s.map(abs), ["map"]),
        (lambda s: s.map(abs).filter(bool), ["map > filter"]),
        (lambda s: s.map(abs).flat_map(range).map_batches(same), ["map > flat_map > map_batches"]),
        (lambda s: s.map(abs).inspect(repr).filter(bool).map(str), ["map > 2 more > map-2"]),
        (lambda s: s.exchange(abs).map(abs), ["exchange > map"]),
        (lambda s: s.map(abs).exchange(abs).map(abs), ["map", "exchange > map-2"]),
        (lambda s: s.exchange(abs).exchange(abs), ["exchange", "exchange-2"]),
        (lambda s: s.map(abs).probe("middle").filter(bool), ["map > filter"]),
        (lambda s: s.map(abs).capture("middle").filter(bool), ["map", "capture middle", "filter"]),
        (lambda s: s.map(abs).publish("middle").filter(bool), ["map", "publish middle", "filter"]),
        (lambda s: s.map(abs).filter(bool).capture("end"), ["map > filter", "capture end"]),
        (lambda s: s.map(abs).concat(s.filter(bool)).map(str), ["map", "filter", "concat", "map-2"]),
        (lambda s: s.map(abs).unary(scheduled(ignore), name="u").map(abs), ["map", "u", "map-2"]),
        (lambda s: s.iterate(lambda i: (i.map(abs).filter(bool), i.map(abs))), None),
    ],
)
def test_what_becomes_one(describe: Describe, operators: list[str] | None) -> None:
    """Stages joined by an edge that stays on the worker and that nothing else reads; all others stay by themselves."""
    if operators is None:
        loop = ["enter", "feedback", "concat", "map > iterate/filter", "map-2"]
        assert operators_of(describe) == ["input in", *(f"iterate/{name}" for name in loop), "leave"]
    else:
        assert operators_of(describe) == ["input in", *operators]


def test_branches_of_a_chain_are_chains_of_their_own() -> None:
    """Where a stream is read twice the chain ends, and each reader begins another."""

    def describe(stream: tw.Stream[Any]) -> None:
        trunk = stream.map(abs).map(abs)
        trunk.filter(bool).map(str).capture("left")
        trunk.map(str).filter(bool).capture("right")

    assert operators_of(describe) == [
        "input in",
        "map > map-2",
        "filter > map-3",
        "capture left",
        "map-4 > filter-2",
        "capture right",
    ]


def test_a_chain_stands_where_its_first_stage_did() -> None:
    """Chains described in turns come apart; edges, inputs, captures and probes point where they should."""
    flow = tw.Dataflow("turns")
    left, right = flow.input("left"), flow.input("right")
    left_one, right_one = left.map(lambda n: n + 1), right.map(lambda n: n + 10)
    left_two, right_two = left_one.map(lambda n: n + 2).probe("left"), right_one.map(lambda n: n + 20).probe("right")
    left_two.map(lambda n: n + 4).capture("left")
    right_two.map(lambda n: n + 40).capture("right")
    plan = description_of(flow).plan()
    names = [operator.name for operator in plan.operators]
    assert names == [
        "input left",
        "input right",
        "map > map-3 > map-5",
        "map-2 > map-4 > map-6",
        "capture left",
        "capture right",
    ]
    assert plan.probes == {"left": Source(2, 0), "right": Source(3, 0)}
    assert (plan.inputs, plan.captures) == ({"left": 0, "right": 1}, {"left": 4, "right": 5})
    with deploy(flow, 2) as job:
        job.input("left").send([0])
        job.input("right").send([0])
        job.input("left").close()
        job.input("right").close()
        job.wait(DEADLINE_S)
        assert (captured(job, "left"), captured(job, "right")) == ([(0, [7])], [(0, [70])])


def test_fusing_again_changes_nothing() -> None:
    """A fused plan has nothing left to fuse."""
    flow = tw.Dataflow("again")
    flow.input("in").map(abs).exchange(abs).map(abs).filter(bool).capture("out")
    plan = description_of(flow).plan()
    assert [one.shape for one in fuse(plan).operators] == [one.shape for one in plan.operators]
    assert [one.sources for one in fuse(plan).operators] == [one.sources for one in plan.operators]


def test_a_description_may_be_planned_many_times_and_go_on() -> None:
    """Fusion takes nothing away from the description: it grows, runs, and runs again."""
    flow = tw.Dataflow("growing")
    stream = flow.input("numbers").map(lambda n: n + 1)
    for length in range(1, 4):
        stream = stream.map(lambda n: n * 2)
        stream.capture(f"after {length}")
        with deploy(flow, 1) as job:
            feed(job, [1])
            job.wait(DEADLINE_S)
            assert captured(job, f"after {length}") == [(0, [2 * 2**length])]


def test_names_stay_unique() -> None:
    """Names of chains cannot meet, since those of their stages do not; statistics has each stage under its own."""
    flow = tw.Dataflow("names")
    stream = flow.input("numbers")
    for _ in range(4):
        stream = stream.map(lambda n: n).unary(reading(lambda _: True), name="map > map").map(lambda n: n).exchange(abs)
    stream.capture("results")
    plan = description_of(flow).plan()
    assert len({operator.name for operator in plan.operators}) == len(plan.operators)
    with deploy(flow, 2) as job:
        feed(job, [3])
        job.wait(DEADLINE_S)
        operators = job.statistics().operators
        assert captured(job) == [(0, [3])]
    assert len(operators) == 1 + 4 * 4 + 1
    assert {"map", "map-8", "map > map", "map > map-4", "exchange", "exchange-4"} <= set(operators)
    assert all(one.records_in == 1 for name, one in operators.items() if name != "input numbers")


def test_ten_thousand_maps_are_one_operator() -> None:
    """Building, running and asking for the figures take no longer than the functions themselves."""
    flow = tw.Dataflow("long")
    stream = flow.input("numbers")
    for _ in range(10_000):
        stream = stream.map(lambda n: n + 1)
    stream.probe("done").capture("results")
    plan = description_of(flow).plan()
    assert len(plan.operators) == 3
    assert len(CompiledGraph(plan.graph()).locations) == 4
    assert plan.operators[1].name == "map > 9998 more > map-10000"
    with deploy(flow, 2) as job:
        feed(job, [0, 5])
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [10_000, 10_005])]
        statistics = job.statistics()
        assert len(statistics.operators) == 10_002
        assert statistics.operators["map-10000"].records_out == 2


def test_nothing_is_scheduled_within_a_chain() -> None:
    """However long it is, an epoch costs as many steps and progress changes as with one stage."""
    costs = []
    for stages in (1, 20):
        flow = tw.Dataflow("cost")
        stream = flow.input("numbers")
        for _ in range(stages):
            stream = stream.map(lambda n: n)
        stream.exchange(abs).probe("done").capture("results")
        with deploy(flow, 2) as job:
            feed(job, *([n] for n in range(10)))
            job.wait(DEADLINE_S)
            costs.append([(one.steps, one.progress_messages, one.progress_changes) for one in job.statistics().workers])
    assert costs[0] == costs[1]


# ---------------------------------------------------------------------- what comes out


serial = count()

STAGES: dict[str, tuple[Callable[[tw.Stream[Any]], tw.Stream[Any]], Callable[[Iterable[int]], Iterable[int]]]] = {
    "map": (lambda s: s.map(lambda n: 3 * n + 1), lambda numbers: [3 * n + 1 for n in numbers]),
    "filter": (lambda s: s.filter(lambda n: n % 3), lambda numbers: [n for n in numbers if n % 3]),
    "flat_map": (lambda s: s.flat_map(lambda n: [n] * (n % 3)), lambda ns: [n for n in ns for _ in range(n % 3)]),
    "map_batches": (lambda s: s.map_batches(lambda b: [n - 2 for n in b]), lambda numbers: [n - 2 for n in numbers]),
    "inspect": (lambda s: s.inspect(str), list),
    "exchange": (lambda s: s.exchange(lambda n: n // 2), list),
    "probe": (lambda s: s.probe(f"probe {next(serial)}"), list),
    "capture": (lambda s: s.capture(f"capture {next(serial)}"), list),
    "unary": (lambda s: s.unary(reading(lambda _: True), name="pass"), list),
    "concat": (lambda s: s.map(abs).concat(s.map(lambda n: -n)), lambda ns: [m for n in ns for m in (abs(n), -n)]),
    "loop": (
        lambda s: s.iterate(lambda i: (i.filter(lambda n: n > 4).map(lambda n: n - 3), i.filter(lambda n: n <= 4))),
        lambda numbers: [n if n <= 4 else (n - 5) % 3 + 2 for n in numbers],
    ),
}


@law_settings(100)
@given(case=cases(LISTS), names=st.lists(st.sampled_from(sorted(STAGES)), max_size=9))
def test_random_chains_give_what_plain_python_gives(case: Case, names: list[str]) -> None:
    """Whatever is fused with what, each record comes out at its time, as often as it should."""

    def describe(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        for name in names:
            stream = STAGES[name][0](stream)
        return stream

    def plain(numbers: list[int]) -> Iterable[int]:
        found: Iterable[int] = numbers
        for name in names:
            found = STAGES[name][1](found)
        return found

    assert bags(run(describe, case)) == expected(case.feed, plain)
