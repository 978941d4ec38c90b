"""The binary operator."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import (
    KINDS,
    Feed,
    Kind,
    bags,
    expected,
    feeds,
    operator_settings,
    send,
    settle,
)
from tidewheel.batches.batches import records
from tidewheel.operators.base.division import Division, split_by_key, updated
from tidewheel.runtime.description.plan import Schedule


def joining(left_kind: Kind, right_kind: Kind) -> Any:
    """Return the build of a join by number within each time, as soon as records meet: it never waits."""

    def build(context: tw.OperatorContext) -> Schedule:
        division = Division(split_by_key, updated).of_each()
        lefts: dict[Any, Counter[int]] = division.state(context, "lefts", dict)
        rights: dict[Any, Counter[int]] = division.state(context, "rights", dict)

        def schedule(left: tw.InputPort, right: tw.InputPort, output: tw.OutputPort) -> None:
            for port, kind, mine, others in ((left, left_kind, lefts, rights), (right, right_kind, rights, lefts)):
                for token, batch in port:
                    numbers = [kind.number(record) for record in records(batch)]
                    mine.setdefault(token.time, Counter()).update(numbers)
                    partners = others.get(token.time, Counter())
                    output.send(token, [number for number in numbers for _ in range(partners[number])])

        return schedule

    return build


@operator_settings()
@given(feeds(), feeds(), st.sampled_from(KINDS), st.sampled_from(KINDS), st.integers(1, 3))
def test_a_join_over_workers_is_the_join(left: Feed, right: Feed, one: Kind, other: Kind, workers: int) -> None:
    """Records of two streams, exchanged by the same key, meet whatever their kind of batch: no pair is missed."""
    flow = tw.Dataflow("test")
    joined = flow.input("left").binary(
        flow.input("right"), joining(one, other), exchange=(one.number, other.number), name="join"
    )
    joined.capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        send(job, "left", left, one)
        send(job, "right", right, other)
        job.wait()
        found = bags(job.captured("results"))
    rights = expected(right)
    pairs = {
        time: Counter({number: count * rights.get(time, Counter())[number] for number, count in bag.items()})
        for time, bag in expected(left).items()
    }
    assert found == {time: +bag for time, bag in pairs.items() if +bag}


def test_each_input_has_a_frontier_of_its_own() -> None:
    """An operator can tell which of its inputs still has records of a time to come."""
    frontiers: list[tuple[set[Any], set[Any]]] = []

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(left: tw.InputPort, right: tw.InputPort, output: tw.OutputPort) -> None:
            frontiers.append((set(left.frontier), set(right.frontier)))

        return schedule

    flow = tw.Dataflow("test")
    flow.input("left").binary(flow.input("right"), build, name="watch").probe("after")
    with tw.run(flow, engine="local") as job:
        settle(job)
        assert frontiers[-1] == ({0}, {0})
        job.input("left").advance_to(3)
        settle(job)
        assert frontiers[-1] == ({3}, {0})
        job.input("right").advance_to(1)
        settle(job)
        assert frontiers[-1] == ({3}, {1})
        assert set(job.probe("after").frontier) == {1}
        job.input("right").close()
        settle(job)
        assert frontiers[-1] == ({3}, set())
        job.input("left").close()
        job.wait()
    assert frontiers[-1] == (set(), set())
