"""The state of a job goes on with the operator that had it, or the job is refused: never with another one."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.behaviour.runtime.test_snapshots import begin, counts
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import settle
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder


def sums(*, seen: str | None = None, name: str | None = None, extra: int = 0) -> tw.Dataflow:
    """Return a dataflow that adds up amounts by person, behind one that counts them if there is a ``seen``."""
    flow = tw.Dataflow("sums")
    amounts: Any = flow.input("amounts")
    if seen is not None:
        names = {"name": seen} if seen else {}
        amounts = amounts.stateful_map(lambda pair: pair[0], start=int, step=lambda n, pair: (n + 1, pair), **names)
    names = {"name": name} if name else {}
    add = (lambda t, pair: (t + pair[1] + 1, (pair[0], t + pair[1]))) if extra else _add
    amounts.stateful_map(lambda pair: pair[0], start=int, step=add, **names).capture("sums")
    return flow


def _add(total: int, pair: tuple[str, int]) -> tuple[int, tuple[str, int]]:
    return total + pair[1], (pair[0], total + pair[1])


def sums_after(folder: Path, first: tw.Dataflow, then: tw.Dataflow, **settings: Any) -> list[Any]:
    """Send 100 to the first, take a snapshot, send 5 to the second; return what that has come to."""
    with begin(folder, first) as job:
        job.input("amounts").send([("ann", 100)])
        job.input("amounts").advance_to(1)
        settle(job)
        job.stop(snapshot=True)
    with begin(folder, then, **settings) as job:
        with job.input("amounts") as amounts:
            amounts.send([("ann", 5)])
        job.wait()
        return [record for (time, record) in counts(job, "sums") if time == 1]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({}, {"seen": ""}),
        ({"seen": ""}, {"seen": ""}),
        ({}, {"name": "total"}),
        ({}, {"seen": "", "name": "total"}),
        ({"name": "total"}, {"seen": "", "name": "total"}),
        ({"name": "total"}, {"seen": "new", "name": "total"}),
    ],
    ids=str,
)
def test_an_operator_that_is_added_or_named_takes_no_state(
    first: dict[str, Any], then: dict[str, Any], tmp_path: Path
) -> None:
    """In front of another one of its kind, with and without names, and where that gets a name."""
    assert sums_after(tmp_path / "s", sums(**first), sums(**then)) == [("ann", 105)]


def test_an_operator_that_is_removed_leaves_the_others_theirs(tmp_path: Path) -> None:
    """The name of the one that is left is another one now; that the state of the other is lost has to be said."""
    with raises(tw.errors.SnapshotError):
        sums_after(tmp_path / "s", sums(seen=""), sums())
    found = sums_after(tmp_path / "t", sums(seen="seen"), sums(), without=["seen"])
    assert found == [("ann", 105)]


def windows(*, length: float = 60, lateness: float | None = None, at: Any = float, key: Any = str) -> tw.Dataflow:
    flow = tw.Dataflow("windows")
    made = flow.input("times").window(
        tw.TumblingWindows(length), key=key, at=at, start=int, add=lambda n, _: n + 1, lateness=lateness, name="w"
    )
    made.results.capture("results")
    made.late.capture("late")
    return flow


def joined(within: tuple[float, float]) -> tw.Dataflow:
    flow = tw.Dataflow("windows")
    times = flow.input("times")
    made = times.interval_join(times, on=str, at=float, within=within, name="w")
    made.results.capture("results")
    return flow


CHANGES: dict[str, tuple[Callable[[], tw.Dataflow], Callable[[], tw.Dataflow], str]] = {
    "length": (windows, lambda: windows(length=100), r"'w.*' has windows .*length=100.* and .*length=60"),
    "lateness": (windows, lambda: windows(lateness=5), "has lateness 5, and None"),
    "event time": (windows, lambda: windows(at=None), "has at None, and float"),
    "key": (windows, lambda: windows(key="user"), "has key 'user', and str"),
    "kind": (windows, lambda: joined((0, 5)), r"comes from interval_join\(\), and .* from window\(\)"),
    "interval": (lambda: joined((0, 5)), lambda: joined((0, 9)), r"has within \[0, 9\], and \[0, 5\]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_kind_or_argument_is_refused(change: str, tmp_path: Path) -> None:
    """The error names the operator, the argument and both values; the folder stays usable for the program of before."""
    first, then, error = CHANGES[change]
    with begin(tmp_path / "s", first()) as job:
        job.input("times").send([10, 70])
        job.stop(snapshot=True)
    with pytest.raises(tw.errors.SnapshotError, match=error):
        begin(tmp_path / "s", then())
    begin(tmp_path / "s", first()).stop()


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return said


def test_another_function_is_warned_of_until_it_is_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As each mended function is another one. The warning has the remedy, which works."""
    before, after = sums(name="total"), sums(name="total", extra=1)
    assert sums_after(tmp_path / "s", before, after) == [("ann", 105)]
    (said,) = warnings_in(caplog)
    assert "operator 'total', step" in said
    assert "accept=['total']" in said
    sums_after(tmp_path / "t", before, after, accept=["total"])
    sums_after(tmp_path / "u", before, before)
    assert warnings_in(caplog) == []


def test_operators_without_names_are_told_at_the_first_snapshot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once for a job: those with state. The warning says how to name them, and one with names gets none."""
    with begin(tmp_path / "s", sums(seen="")) as job:
        job.snapshot()
        (said,) = warnings_in(caplog)
        assert "'stateful_map', 'stateful_map-2'" in said
        assert "name=" in said
        job.snapshot()
        job.stop()
    with begin(tmp_path / "t", sums(seen="seen", name="total")) as job:
        job.snapshot()
        job.stop()
    assert warnings_in(caplog) == []


def test_accept_is_a_list() -> None:
    """A text is refused, as each of its letters would be a name."""
    with raises(tw.errors.ConfigError):
        tw.Snapshots("somewhere", accept="count")


@pytest.mark.parametrize("change", ["behind", "before", "elsewhere", "named"])
def test_records_on_their_way_are_not_lost(change: str, tmp_path: Path) -> None:
    """Operators that run as one have another name when one is added; what waits for them comes all the same, once."""

    def dataflow(change: str) -> tw.Dataflow:
        flow = tw.Dataflow("on the way")
        words: Any = flow.input("words")
        if change == "elsewhere":
            flow.input("others").exchange(str).map(str.title).capture("others")
        if change == "before":
            words = words.map(str)
        words = words.exchange(str, **({"name": "spread"} if change == "named" else {})).map(str.upper)
        (words.filter(bool) if change == "behind" else words).capture("words")
        return flow

    with begin(tmp_path / "s", dataflow("")) as job:
        for letters in ("abcd", "efgh"):  # one batch to each worker
            job.input("words").send(list(letters))
        job.run_round()  # type: ignore[attr-defined]
        job.snapshot()
        job.stop()
    (stored,) = SnapshotFolder(tmp_path / "s").stored_snapshots()
    assert ("exchange", "records") in [(one["name"], one["keeps"]) for one in stored.manifest.body["operators"]]
    with begin(tmp_path / "s", dataflow(change)) as job:
        for name in ("words", "others")[: 1 + (change == "elsewhere")]:
            job.input(name).close()
        job.wait()
        assert counts(job, "words") == dict.fromkeys([(0, letter) for letter in "ABCDEFGH"], 1)
