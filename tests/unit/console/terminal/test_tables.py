"""The tables of ``tidewheel top``: figures against documents made by hand."""

from typing import Any

import pytest

from tests.kit.telemetry.documents import BEGAN_AT, document, operator, views, worker
from tests.kit.terminal.watched_jobs import Listed, stuck_views
from tidewheel.console.page.lag import Fronts
from tidewheel.console.page.live_numbers import with_live_numbers
from tidewheel.console.terminal.tables import (
    ORDERS,
    Row,
    Table,
    jobs_table,
    log_table,
    operators_of,
    operators_table,
    sinks_table,
    sources_table,
    stuck_lines,
    title_of,
    topics_table,
    workers_table,
)


def column(table: Table, head: str) -> list[str]:
    """Return the cells of one column."""
    place = [one.strip() for one in table.heads].index(head)
    return [row.cells[place] for row in table.rows]


def test_operators_have_rates_busy_shares_and_lags() -> None:
    """Rates are differences over the time between two views; lag is counted from the newest epoch of an input."""
    _, view = stuck_views("words-1")
    table = operators_table(view)
    assert column(table, "OPERATOR") == ["input lines", "split", "keeps"]
    assert column(table, "IN/S") == ["0", "1.0k", "12.5k"]
    assert column(table, "OUT/S") == ["1.0k", "12.5k", "0"]
    assert column(table, "BUSY") == ["0%", "40%", "0%"]
    assert column(table, "LAG") == ["0", "9", "5"]
    assert column(table, "QUEUE") == ["0", "0", "7"]
    assert column(table, "PROBLEM") == ["", "", "1 leaked token"]
    assert [row.is_alarming for row in table.rows] == [False, False, True]


def test_rates_are_unknown_in_the_first_view() -> None:
    """They are left out, not shown as nothing."""
    view, _ = stuck_views("words-1")
    assert column(operators_table(view), "IN/S") == ["", "", ""]
    assert column(operators_table(view), "BUSY") == ["", "", ""]


def test_the_busy_share_is_that_of_all_workers() -> None:
    """One of four workers that does nothing else is a quarter."""
    made = [
        document(at=BEGAN_AT + at, job={"workers": 4}, operators={"0": operator("slow", seconds=2.0 * at)})
        for at in (1, 3)
    ]
    [figures] = operators_of(views(*made)[1])
    assert figures.busy == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("graph", ["input lines", "split", "keeps"]),
        ("name", ["input lines", "keeps", "split"]),
        ("rate", ["keeps", "input lines", "split"]),
        ("busy", ["split", "input lines", "keeps"]),
        ("lag", ["split", "keeps", "input lines"]),
        ("queue", ["keeps", "input lines", "split"]),
    ],
)
def test_operators_are_ordered(order: str, names: list[str]) -> None:
    """Those with the most come first, and those that have the same as in the graph; or the other way round."""
    _, view = stuck_views("words-1")
    assert column(operators_table(view, order), "OPERATOR") == names
    assert order in ORDERS
    if order in {"graph", "name"}:
        assert column(operators_table(view, order, is_reversed=True), "OPERATOR") == names[::-1]


def test_an_operator_that_has_ended_and_one_that_is_long_inside() -> None:
    """The first has no lag, the second says on which worker and for how long; its oldest token has an age."""
    busy = operator(
        "busy",
        kind="input",
        frontier=["(4, 2)", "(5, 0)"],
        busy={"worker": 1, "time": "4", "seconds": 75.2},
        tokens=[
            {"time": "4", "count": 1, "worker": 1, "since": BEGAN_AT - 3},
            {"time": "9", "count": 1, "since": BEGAN_AT},
        ],
        state_keys=7,
        state_bytes=2_500_000,
    )
    [view] = views(document(operators={"0": busy, "1": operator("over", frontier=[], state_keys=1200)}))
    table = operators_table(view)
    assert column(table, "FRONTIER") == ["(4, 2), (5, 0)", "ended"]
    assert column(table, "LAG") == ["1", ""]
    assert column(table, "PROBLEM") == ["worker 1 in it for 1 min", ""]
    assert column(table, "HELD") == ["3 s", ""]
    assert column(table, "STATE") == ["7 keys, 2.5 MB", "1.2k keys"]


def test_operators_and_probes_are_behind_by_seconds() -> None:
    """As the page shows it; less than a second is not shown, and a probe is an operator."""
    parts: dict[str, Any] = {
        "operators": {"0": operator("input", kind="input", frontier=["9"]), "1": operator("done", frontier=["4"])},
        "probes": {"done": {"operator": "1", "kind": "probe", "frontier": ["4"]}},
    }
    fronts = Fronts()
    seen = [with_live_numbers(view, fronts) for view in views(*(document(at=BEGAN_AT + at, **parts) for at in (0, 75)))]
    assert [column(operators_table(view), "BEHIND") for view in seen] == [["", ""], ["", "1 min"]]


def test_times_that_are_no_numbers_have_no_lag() -> None:
    """Such as those of an order of the user's own."""
    [view] = views(document(operators={"0": operator("days", kind="input", frontier=["'monday'"])}))
    assert column(operators_table(view), "LAG") == [""]


def test_workers_that_are_not_well_come_first() -> None:
    """With what each uses; a share of a processor is that of one core."""
    made = [
        document(
            at=BEGAN_AT + at,
            workers={
                "0": worker(steps=100 * at, cpu_seconds=0.5 * at, rss=300_000_000),
                "1": worker(state="dead"),
            },
        )
        for at in (0, 2)
    ]
    table = workers_table(views(*made)[1])
    assert column(table, "WORKER") == ["1", "0"]
    assert column(table, "STATE") == ["dead", "running"]
    assert column(table, "STEPS/S") == ["0", "100"]
    assert column(table, "CPU") == ["0%", "50%"]
    assert column(table, "MEMORY")[1] == "300.0 MB"
    assert [row.is_alarming for row in table.rows] == [True, False]


def test_workers_that_have_ended_alarm_nobody() -> None:
    """As those of a job that is complete."""
    made = document(state="complete", workers={"0": worker(state="ended"), "1": worker(state="dead")})
    table = workers_table(views(made)[0])
    assert [(*row.cells[:2], row.is_alarming) for row in table.rows] == [("1", "dead", True), ("0", "ended", False)]


def test_topics_are_summed_over_their_partitions() -> None:
    """A subscriber reads all partitions; a topic whose slow subscriber holds back the job is marked."""
    partitions = [{"records": 100, "subscribers": 2, "lag_messages": 3, "lag_bytes": 500, "holders": 0}]
    partitions.append({"records": 50, "subscribers": 2, "lag_messages": 1, "lag_bytes": 600, "holders": 1})

    def at(second: int) -> dict[str, Any]:
        counts = {str(number): {**one, "records": one["records"] * second} for number, one in enumerate(partitions)}
        topics = {"ranks": {"operator": "1", "delivery": "best_effort", "partitions": counts}}
        return document(at=BEGAN_AT + second, topics=topics, live={"topics": {"ranks": {"lag_seconds": 3.2}}})

    table = topics_table(views(at(1), at(2))[1])
    assert [row.cells for row in table.rows] == [("ranks", "best_effort", "150", "2", "4", "1.1 kB", "3 s")]
    assert table.rows[0].is_alarming


def test_sources_say_how_far_they_are_behind() -> None:
    """In the units that they can tell; one that cannot has empty cells."""

    def at(second: int) -> dict[str, Any]:
        told = {"lag_records": 1200, "lag_bytes": 5000, "lag_seconds": 75.0}
        sources = {"tides": {"partitions": 3, "records": 40 * second, **told}, "files": {"partitions": 1, "records": 0}}
        return document(at=BEGAN_AT + second, sources=sources)

    table = sources_table(views(at(1), at(2))[1])
    assert [row.cells for row in table.rows] == [
        ("tides", "3", "40", "1.2k", "5.0 kB", "1 min"),
        ("files", "1", "0", "", "", ""),
    ]


def test_sinks_say_what_they_have_committed() -> None:
    """One that has committed nothing has no last commit."""

    def at(second: int) -> dict[str, Any]:
        sinks = {
            "high": {"records": 30 * second, "epochs": 7, "waiting": 2, "committed": BEGAN_AT - 3},
            "low": {"records": 0, "epochs": 0, "waiting": 1},
        }
        return document(at=BEGAN_AT + second, sinks=sinks)

    table = sinks_table(views(at(1), at(2))[1])
    assert [row.cells for row in table.rows] == [("high", "30", "7", "2", "5 s ago"), ("low", "0", "0", "1", "")]


def test_the_title_says_how_the_job_is() -> None:
    """With its error, and what else it has to say."""
    failed = document(at=BEGAN_AT + 75, state="failed", job={"error": "operator 'x' raised", "notes": ["one note"]})
    assert title_of(failed) == [
        "words-0badcafe  failed for 1 min, 1 worker on local",
        "error: operator 'x' raised",
        "one note",
    ]
    assert title_of({}) == ["?  ? for 0 s, 1 worker on ?"]


def test_what_is_stuck_is_told_in_the_words_of_explain() -> None:
    """A probe that moves says nothing."""
    _, view = stuck_views("words-1")
    assert stuck_lines(view.document) == ["'done' waits", "1. operator 'keeps' holds"]
    assert stuck_lines(document(probes={"done": {"operator": "1", "frontier": ["3"]}})) == []


def test_events_stand_with_the_last_first() -> None:
    """By their numbers, which are no texts: 10 comes after 9."""
    log = {
        "9": {"at": BEGAN_AT - 5, "level": "info", "text": "began"},
        "10": {"at": BEGAN_AT, "level": "error", "text": "died", "worker": "1", "operator": "map"},
    }
    table = log_table(document(log=log))
    assert [row.cells for row in table.rows] == [
        ("0 s ago", "error", "worker 1, 'map'", "died"),
        ("5 s ago", "info", "", "began"),
    ]
    assert [row.is_alarming for row in table.rows] == [True, False]


def test_names_of_others_cannot_steer_the_terminal() -> None:
    """A job of anybody may be on the cluster: its texts are shown without what a terminal obeys."""
    evil = "a\x1b[2J\x07\nb"
    told = document(
        name=evil,
        job={"error": evil},
        operators={"0": operator(evil, frontier=[evil])},
        probes={"p": {"explanation": evil}},
        log={"1": {"at": BEGAN_AT, "level": "info", "text": evil}},
        topics={evil: {"partitions": {}}},
        sources={evil: {}},
        sinks={evil: {}},
    )
    [view] = views(told)
    tables = [operators_table(view), topics_table(view), log_table(told), jobs_table([Listed(evil, probes=evil)])]
    tables += [sources_table(view), sinks_table(view)]
    shown = [cell for table in tables for row in table.rows for cell in row.cells]
    assert all(text.isprintable() for text in [*shown, *title_of(told), *stuck_lines(told)])


def test_a_cut_table_says_how_many_rows_are_left() -> None:
    """From any row on; a table that fits is left as it is."""
    table = Table(("N",), [Row((str(number),)) for number in range(5)])
    assert [row.cells[0] for row in table.cut(5).rows] == ["0", "1", "2", "3", "4"]
    assert [row.cells[0] for row in table.cut(3).rows] == ["0", "1", "and 3 more"]
    assert [row.cells[0] for row in table.cut(3, 2).rows] == ["2", "3", "4"]
    assert [row.cells[0] for row in table.cut(0).rows] == []


def test_jobs_that_do_not_run_are_marked() -> None:
    """Such as one whose worker 0 does not answer."""
    table = jobs_table([Listed("a", "running", 2, "done: 3"), Listed("b", "silent")])
    assert [(row.cells, row.is_alarming) for row in table.rows] == [
        (("a", "running", "2", "done: 3"), False),
        (("b", "silent", "1", ""), True),
    ]
