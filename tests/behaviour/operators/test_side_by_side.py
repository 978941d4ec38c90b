"""Streams side by side, such as results and late records: what happens to one that nothing reads."""

import copy
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

import tidewheel as tw
from tests.kit.operators.harness import DEADLINE_S
from tidewheel.operators.records.routing_operators import NamedBranches

Describe = Callable[[tw.Stream[Any]], dict[str, tw.Stream[Any]]]


def branched(numbers: tw.Stream[Any]) -> dict[str, tw.Stream[Any]]:
    return numbers.branch(lambda n: n > 0)._asdict()


def windowed(numbers: tw.Stream[Any]) -> dict[str, tw.Stream[Any]]:
    made = numbers.window(tw.TumblingWindows(60), key=bool, at=lambda n: n)
    return {"results": made.results, "late": made.late}


def joined(numbers: tw.Stream[Any]) -> dict[str, tw.Stream[Any]]:
    made = numbers.interval_join(numbers, bool, at=lambda n: n, within=(0, 10))
    return {"results": made.results, "late": made.late, "other_late": made.other_late}


def run(describe: Describe, capture: str, ignore: tuple[str, ...] = ()) -> tw.types.JobStatistics:
    """Feed 100 and then 0 and 1, of which one fails, one matches and both are late; read one stream of those."""
    flow = tw.Dataflow("flow")
    streams = describe(flow.input("numbers"))
    streams[capture].capture("read")
    for name in ignore:
        streams[name].ignore()
    with tw.run(flow, workers=2, engine="local") as job:
        with job.input("numbers") as numbers:
            numbers.send([100])
            numbers.advance_to(1)
            numbers.send([0, 1])
        job.wait(DEADLINE_S)
        return job.statistics()


EACH: list[tuple[Describe, str, dict[str, tuple[str, int]]]] = [
    (branched, "matching", {"rest": ("branch", 1)}),
    (windowed, "results", {"late": ("window late", 2)}),
    (joined, "results", {"late": ("interval_join late", 2), "other_late": ("interval_join other late", 2)}),
]


@pytest.mark.parametrize(("describe", "read", "unread"), EACH)
def test_what_nothing_reads_is_told_once_and_counted(
    describe: Describe, read: str, unread: dict[str, tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """One warning as the job starts names the streams and the remedy; statistics count the records lost."""
    statistics = run(describe, read)
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    for name, (operator, lost) in unread.items():
        assert f"{operator.removesuffix(' late').removesuffix(' other')!r}.{name}" in said
        assert statistics.operators[operator].records_dropped == lost
    assert "ignore()" in said
    assert f".{read}" not in said
    assert sum(one.records_dropped for one in statistics.operators.values()) == sum(n for _, n in unread.values())
    assert "dropped" in str(statistics)


@pytest.mark.parametrize(("describe", "read", "unread"), EACH)
def test_what_is_ignored_is_counted_without_a_word(
    describe: Describe, read: str, unread: dict[str, tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """`Stream.ignore` says that it is meant: nothing is logged, and the count is the same."""
    statistics = run(describe, read, ignore=tuple(unread))
    assert [record.getMessage() for record in caplog.records] == []
    for operator, lost in unread.values():
        assert statistics.operators[operator].records_dropped == lost


def test_of_several_streams_each_is_named_in_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A job says all that it has to say at once; streams of a partition go by number, named branches by name."""
    flow = tw.Dataflow("flow")
    numbers = flow.input("numbers", int)
    numbers.partition(3, lambda n: n % 3)[1].capture("part")
    numbers.branch(name="sizes", small=lambda n: n < 5, large=lambda n: n > 99).small.capture("small")
    numbers.branch_when(bool, name="later").rest.probe("rest")
    with tw.run(flow, engine="local") as job:
        with job.input("numbers") as feed:
            feed.send([1, 2, 7])
        job.wait(DEADLINE_S)
        operators = job.statistics().operators
    (said,) = [record.getMessage() for record in caplog.records]
    names = "'partition'[0], 'partition'[2], 'sizes'.large, 'sizes'.rest, 'later'.matching"
    assert f"nothing reads {names}, so" in said
    dropped = {name: one.records_dropped for name, one in operators.items() if one.records_dropped}
    assert dropped == {"partition": 1, "sizes": 1, "later": 3}


def test_windows_of_epochs_have_no_late_records_to_read(caplog: pytest.LogCaptureFixture) -> None:
    """Where nothing can be late there is nothing to warn of."""
    flow = tw.Dataflow("flow")
    flow.input("numbers").window(tw.TumblingWindows(2), key=bool, at=None).results.capture("results")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").close()
        job.wait(DEADLINE_S)
    assert caplog.records == []


def test_what_has_a_reader_or_an_effect_is_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Statistics count what is lost by a stream side by side with others, not at the ends of a dataflow."""
    flow = tw.Dataflow("flow")
    sizes = flow.input("numbers").branch(lambda n: n < 9)
    sizes.matching.inspect(abs)
    sizes.rest.map(abs).probe("rest")
    with tw.run(flow, engine="local") as job:
        with job.input("numbers") as feed:
            feed.send([1, 10])
        job.wait(DEADLINE_S)
        assert not any(one.records_dropped for one in job.statistics().operators.values())
    assert caplog.records == []


def test_an_ignored_stream_of_one_alone_is_no_loose_end(caplog: pytest.LogCaptureFixture) -> None:
    """It may be any stream, also the last of a chain."""
    flow = tw.Dataflow("flow")
    flow.source("numbers", tw.RecordSource([1])).map(abs).ignore()
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("make", "has"),
    [
        (lambda s: s.branch(bool), ".matching and .rest: call map of one of them, such as .matching.map(...)"),
        (lambda s: s.branch(a=bool, b=abs), ".a, .b and .rest: call map of one of them, such as .a.map(...)"),
        (
            lambda s: s.window(tw.TumblingWindows(1), key=bool, at=abs),
            ".results and .late: call map of one of them, such as .results.map(...)",
        ),
        (
            lambda s: s.interval_join(s, bool, at=abs, within=(0, 1)),
            ".results, .late and .other_late: call map of one of them, such as .results.map(...)",
        ),
    ],
)
def test_streams_side_by_side_are_no_stream(make: Callable[[tw.Stream[Any]], Any], has: str) -> None:
    """Using them as one says which streams there are, and how to use them; any other name is told without advice."""
    several = make(tw.Dataflow("flow").input("numbers"))
    name = type(several).__name__
    with pytest.raises(AttributeError) as refusal:
        several.map(abs)
    assert str(refusal.value) == f"{name!r} object has no attribute 'map'; it has the streams {has}"
    with pytest.raises(AttributeError) as refusal:
        _ = several.mop
    assert str(refusal.value) == f"{name!r} object has no attribute 'mop'; it has the streams {has.partition(':')[0]}"
    assert not hasattr(several, "__array__")
    numbers = tw.Dataflow("flow").input("numbers")
    with pytest.raises(tw.GraphError) as refused:
        numbers.concat(several)
    assert str(refused.value).endswith(f": give one of its streams {has.partition(':')[0].replace(' and ', ' or ')}")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_streams_side_by_side_can_be_copied(copied: Callable[[Any], Any]) -> None:
    """What Python asks an object for that is half made gets its usual answer."""
    branches: Any = NamedBranches(cast(Any, {"small": 1, "rest": 2}))
    assert list(copied(branches)) == [1, 2]
