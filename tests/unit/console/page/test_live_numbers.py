"""The numbers that the page adds to a document."""

from itertools import count
from typing import Any

from tests.kit.telemetry.documents import BEGAN_AT, document, edge, operator, views, worker
from tidewheel.console.page.lag import Fronts
from tidewheel.console.page.live_numbers import live_numbers


def test_counts_become_rates() -> None:
    """Of operators, edges, workers and topics; those of the inputs are the job's."""

    def at(second: int) -> dict[str, object]:
        return document(
            at=BEGAN_AT + second,
            operators={
                "0": operator("input", kind="input", records_out=100 * second),
                "1": operator("map", records_in=100 * second, records_out=50 * second, seconds=0.25 * second),
            },
            edges={"0": edge("0", "1", records=100 * second, bytes=800 * second)},
            workers={"0": worker(steps=10 * second, cpu_seconds=0.5 * second)},
            topics={"words": {"partitions": {"0": {"records": 3 * second}, "1": {"records": 4 * second}}}},
        )

    first, second = views(at(0), at(2))
    assert live_numbers(first, Fronts())["operators"]["1"] == {"lag_epochs": 0, "lag_seconds": 0.0}
    live = live_numbers(second, Fronts())
    assert live["records"] == 100.0
    assert live["operators"]["1"] == {
        "records_in": 100.0,
        "records_out": 50.0,
        "busy": 0.25,
        "lag_epochs": 0,
        "lag_seconds": 0.0,
    }
    assert live["edges"] == {"0": {"records": 100.0, "bytes": 800.0}}
    assert live["workers"] == {"0": {"cpu": 0.5, "steps": 10.0}}
    assert live["topics"] == {"words": {"records": 7.0}}


def test_a_job_that_has_ended_has_no_rates() -> None:
    """Those of its last second would stay for ever; its lags stay."""
    at = [document(at=BEGAN_AT, operators={"1": operator("map")}, workers={"0": worker(steps=0)})]
    at.append(document(at=BEGAN_AT + 1, state="complete", operators={"1": operator("map", records_in=9)}))
    at[1]["workers"] = {"0": worker(steps=5)}
    live = live_numbers(views(*at)[1], Fronts())
    assert live["operators"]["1"].keys() == {"lag_epochs", "lag_seconds"}
    assert live["workers"] == {"0": {}}
    assert live["records"] == 0


def test_busy_is_a_share_of_all_workers() -> None:
    """An operator that runs without a pause on one of four workers is busy by a quarter, even before it returns."""

    def at(second: int, **parts: object) -> dict[str, object]:
        return document(at=BEGAN_AT + second, job={"workers": 4}, operators={"1": operator("slow", **parts)})

    stuck = {"worker": "0", "seconds": 3.0}
    running, inside = views(at(0), at(1, seconds=2.0)), views(at(0), at(1, busy=stuck))
    assert live_numbers(running[1], Fronts())["operators"]["1"]["busy"] == 0.5
    assert live_numbers(inside[1], Fronts())["operators"]["1"]["busy"] == 0.25


def test_lag_is_behind_the_inputs_of_the_job() -> None:
    """And an operator whose frontier has ended has none."""
    operators = {
        "0": operator("input", kind="input", frontier=["7"]),
        "1": operator("loop", frontier=["(5, 2)"]),
        "2": operator("done", frontier=[]),
    }
    first, later = views(document(operators=operators), document(at=BEGAN_AT + 3, operators=operators))
    fronts = Fronts()
    live_numbers(first, fronts)
    live = live_numbers(later, fronts)["operators"]
    assert (live["1"]["lag_epochs"], live["1"]["lag_seconds"]) == (2, 3.0)
    assert "lag_epochs" not in live["2"]


def test_an_input_that_is_closed_leaves_the_lag_as_it_is() -> None:
    """The last epoch of the inputs still counts when their frontier is empty."""
    operators = {"0": operator("input", kind="input", frontier=["7"]), "1": operator("map", frontier=["5"])}
    closed = {**operators, "0": operator("input", kind="input", frontier=[])}
    first, later = views(document(operators=operators), document(at=BEGAN_AT + 1, operators=closed))
    fronts = Fronts()
    live_numbers(first, fronts)
    assert live_numbers(later, fronts)["operators"]["1"]["lag_epochs"] == 2


def test_what_hardly_changes_is_the_same_number() -> None:
    """Rates have three digits, so a steady job sends few changes."""
    _, later = views(
        document(operators={"0": operator("map", records_in=0)}),
        document(at=BEGAN_AT + 1, operators={"0": operator("map", records_in=123_456)}),
    )
    assert live_numbers(later, Fronts())["operators"]["0"]["records_in"] == 123_000.0


def test_a_probe_is_behind_as_an_operator_is() -> None:
    """One that has ended is not."""
    parts: dict[str, Any] = {
        "operators": {"0": operator("input", kind="input", frontier=["7"])},
        "probes": {"done": {"frontier": ["4"]}, "over": {"frontier": []}},
    }
    first, later = views(document(**parts), document(at=BEGAN_AT + 3, **parts))
    fronts = Fronts()
    live_numbers(first, fronts)
    assert live_numbers(later, fronts)["probes"] == {"done": {"lag_epochs": 3, "lag_seconds": 3.0}, "over": {}}


def test_a_subscriber_is_behind_since_what_it_lacks_was_published() -> None:
    """The slowest one of all partitions counts; a partition that begins anew has nothing of before."""

    def lag(*counts: tuple[int, int]) -> float:
        partitions = {
            str(number): {"sequence": published, "lag_messages": waiting}
            for number, (published, waiting) in enumerate(counts)
        }
        [view] = views(document(at=next(moments), topics={"ranks": {"partitions": partitions}}))
        return float(live_numbers(view, fronts)["topics"]["ranks"]["lag_seconds"])

    moments, fronts = count(BEGAN_AT), Fronts()
    assert lag((10, 0), (10, 0)) == 0.0
    assert lag((20, 0), (30, 0)) == 0.0
    assert lag((30, 5), (30, 0)) == 0.0
    assert lag((40, 15), (30, 0)) == 1.0
    assert lag((50, 25), (30, 0)) == 2.0
    assert lag((60, 5), (31, 21)) == 4.0
    assert lag((2, 1), (31, 0)) == 0.0


def test_sources_and_sinks_have_rates() -> None:
    """By how much their counts of records have grown."""
    first, later = views(
        *(
            document(at=BEGAN_AT + at, sources={"tides": {"records": 40 * at}}, sinks={"high": {"records": 10 * at}})
            for at in (1, 3)
        )
    )
    assert live_numbers(first, Fronts())["sources"] == {"tides": {}}
    live = live_numbers(later, Fronts())
    assert (live["sources"], live["sinks"]) == ({"tides": {"records": 40.0}}, {"high": {"records": 10.0}})


def test_a_topic_with_a_log_has_no_lag() -> None:
    """Its subscribers read at their own pace, and its partitions do not count what they lack."""
    [view] = views(document(topics={"ranks": {"partitions": {"0": {"records": 3, "subscriptions": 1}}}}))
    assert live_numbers(view, Fronts())["topics"] == {"ranks": {}}
