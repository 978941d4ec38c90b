"""A warning of streams that nobody reads, and no false alarms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.loose_ends import loose_ends

Numbers = tw.Stream[Any]


def described(describe: Callable[[Numbers], object]) -> list[str]:
    """Return the loose ends of a dataflow."""
    flow = tw.Dataflow("flow")
    describe(flow.input("numbers"))
    return loose_ends(description_of(flow))


def build(context: tw.OperatorContext) -> Any:
    return lambda *ports: None


def round_of_outer(numbers: tw.Collection) -> tw.Collection:
    """A loop whose body does not read what it is given."""
    other = numbers.map(abs)
    return numbers.iterate(lambda _: other)


def with_sink_inside(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The body of a loop that captures."""
    halves = numbers.map(lambda n: n // 2).filter(bool)
    halves.capture("halves")
    return halves, halves


@pytest.mark.parametrize(
    ("describe", "names"),
    [
        (lambda numbers: None, ["input numbers"]),
        (lambda numbers: numbers.map(abs), ["map"]),
        (lambda numbers: numbers.map(abs, name="sizes").count(), ["count"]),
        (lambda numbers: (numbers.map(abs), numbers.capture("all")), ["map"]),
        (lambda numbers: numbers.branch(bool), ["branch"]),
        (lambda numbers: numbers.iterate(lambda inner: inner.map(abs), max_rounds=2), ["leave"]),
        (lambda numbers: numbers.join(numbers, abs), ["join"]),
        (lambda numbers: numbers.window(tw.TumblingWindows(1), key=abs, at=abs), ["window"]),
        (lambda numbers: numbers.window(tw.TumblingWindows(1), key=abs, at=None, name="visits"), ["visits"]),
    ],
)
def test_a_stream_that_nobody_reads_is_found(describe: Callable[[Numbers], object], names: list[str]) -> None:
    """The operator is named by the name that the user has given it; those before it are read."""
    assert described(describe) == names


@pytest.mark.parametrize(
    "describe",
    [
        lambda numbers: numbers.map(abs).probe("done"),
        lambda numbers: numbers.map(abs).capture("done"),
        lambda numbers: numbers.publish("topic"),
        lambda numbers: numbers.capture_to("folder"),
        lambda numbers: numbers.write_files("folder"),
        lambda numbers: numbers.inspect(abs),
        lambda numbers: numbers.inspect_batches(build),
        lambda numbers: numbers.for_each_epoch(build),
        lambda numbers: numbers.on_frontier(build),
        lambda numbers: numbers.map_async(abs),
        lambda numbers: numbers.unary(build, name="own"),
        lambda numbers: numbers.binary(numbers, build, name="own"),
        lambda numbers: numbers.flow.operator([numbers], 2, build, name="own"),
        lambda numbers: numbers.flow.operator([numbers], 0, build, name="own"),
        lambda numbers: numbers.branch(bool).rest.capture("rest"),
        lambda numbers: numbers.map(abs, dead_letters=numbers.flow.dead_letters().ignore()).capture("results"),
        lambda numbers: numbers.window(tw.TumblingWindows(1), key=abs, at=abs).results.capture("results"),
        lambda numbers: numbers.window(tw.TumblingWindows(1), key=abs, at=abs).late.capture("late"),
        lambda numbers: numbers.window(tw.TumblingWindows(1), key=abs, at=abs).late.probe("late"),
        lambda numbers: numbers.iterate(with_sink_inside),
        lambda numbers: round_of_outer(numbers.as_collection()).changes().capture("changes"),
        lambda numbers: numbers.iterate(lambda outer: (outer.iterate(with_sink_inside), outer)),
        lambda numbers: numbers.substreams("s", key=abs).unary(build, bound="soft", name="own"),
    ],
)
def test_there_is_no_false_alarm(describe: Callable[[Numbers], object]) -> None:
    """Sinks, probes and effects have none, nor have outputs that may be left alone, nor loops with a sink inside."""
    assert described(describe) == []


def test_loops_with_alike_names_are_told_apart() -> None:
    """What has an effect in one is no reason for the other."""

    def describe(numbers: Numbers) -> None:
        numbers.iterate(lambda inner: (inner.map(abs).filter(bool), inner), name="rounds")
        numbers.iterate(lambda inner: (inner.inspect(abs).filter(bool), inner), name="rounds2").capture("all")

    assert described(describe) == ["leave"]


def test_a_stream_that_enters_a_loop_for_nobody_is_found() -> None:
    """What has an effect outside of the loop is no reason."""
    flow = tw.Dataflow("flow")
    numbers = flow.input("numbers").capture("all")
    with flow.scope("loop") as loop:
        numbers.enter(loop)
    assert loose_ends(description_of(flow)) == ["loop/enter"]


def test_the_warning_names_streams_and_what_to_do(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """It comes when the dataflow is run, or added to a job; an empty one is told, too."""
    flow = tw.Dataflow("words")
    flow.source("words", tw.RecordSource(["to", "be"])).map(str.upper, name="upper").filter(bool)
    with tw.run(flow, engine="local") as job:
        job.wait()
        added = tw.Dataflow("added")
        added.source("more", tw.RecordSource([1]))
        with job.add(added):
            job.wait()
    with tw.run(tw.Dataflow("nothing"), engine="local") as job:
        job.wait()
    said = [record.getMessage() for record in caplog.records]
    to_do = (
        "sends, so those records are lost. Add capture(name), publish(topic) or another sink, probe(name) to wait for "
        "it, or use inspect(function) for an effect"
    )
    assert said == [
        f"dataflow 'words': nothing reads what 'filter' {to_do}",
        f"dataflow 'added': nothing reads what 'more' {to_do}",
        "dataflow 'nothing' is empty: it ends at once. Add streams with its input(), source()",
    ]
