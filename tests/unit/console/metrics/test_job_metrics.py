"""The samples of a telemetry document: every number under its name, each once, whatever the document is."""

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.telemetry.full_document import AT, document
from tests.laws.strategies import law_settings
from tidewheel.console.metrics.job_metrics import KEPT_S, METRICS, STATES, labels_of, samples

JOB = "sums-d24a72a9"


def values(found: dict[str, Any], now: float = AT) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its metric, without the prefix, and its labels, without the job."""
    shown = {}
    for sample in samples(JOB, found, now):
        assert sample.labels[0] == JOB
        assert len(sample.labels) == len(labels_of(sample.metric))
        shown[sample.metric.name.removeprefix("tidewheel_"), *sample.labels[1:]] = sample.value
    return shown


@pytest.mark.parametrize(
    ("labelled", "value"),
    [
        (("job_info", "sums", "ray"), 1),
        (("job_state", "running"), 1),
        (("job_state", "failed"), 0),
        (("job_workers",), 2),
        (("job_report_timestamp_seconds",), AT),
        (("operator_records_in_total", "map"), 90),
        (("operator_busy_seconds_total", "map"), 0.5),
        (("operator_state_bytes", "map"), 700),
        (("edge_bytes_total", "5", "map", "loop/step"), 640),
        (("edge_fill_ratio", "5", "map", "loop/step"), 0.25),
        (("probe_moved_timestamp_seconds", "done", "probe"), AT - 2),
        (("probe_complete", "done", "probe"), 0),
        (("probe_complete", "ranks", "topic"), 1),
        (("input_waited_seconds_total", "numbers"), 1.5),
        (("input_open", "numbers"), 1),
        (("source_records_total", "tides"), 40),
        (("source_lag_records", "tides"), 7),
        (("source_lag_seconds", "tides"), 0.5),
        (("sink_records_total", "high"), 30),
        (("sink_waiting_epochs", "high"), 2),
        (("sink_committed_timestamp_seconds", "high"), AT - 5),
        (("loop_open_epochs", "loop"), 60),
        (("loop_latest_round", "loop"), 5),
        (("loop_sampled_epochs_total", "loop"), 3),
        (("loop_sampled_rounds_total", "loop"), 18),
        (("worker_up", "0"), 1),
        (("worker_up", "1"), 0),
        (("worker_resident_memory_bytes", "0"), 1 << 20),
        (("topic_messages_total", "ranks", "0"), 6),
        (("topic_lag_bytes", "ranks", "0"), 99),
        (("snapshot_timestamp_seconds",), AT - 60),
    ],
)
def test_numbers_have_names(labelled: tuple[str, ...], value: float) -> None:
    """Each as the document has it, or summed up from there."""
    assert values(document())[labelled] == value


def test_seconds_of_lag_are_those_of_the_page() -> None:
    """It remembers when the inputs were where; telemetry alone does not say."""
    found = values(document(live={"operators": {"3": {"lag_seconds": 0.75}}}))
    assert {labels: value for labels, value in found.items() if labels[0] == "operator_lag_seconds"} == {
        ("operator_lag_seconds", "map"): 0.75
    }


def test_lag_counts_epochs_behind_the_newest() -> None:
    """An input is at the newest; in a loop the outermost coordinate counts; what has ended has no lag."""
    found = values(document())
    lags = {labels[0]: value for (name, *labels), value in found.items() if name == "operator_lag_epochs"}
    assert lags == {"numbers": 0, "map": 1, "loop/enter": 1, "loop/step": 2, "out": 0}
    assert found["probe_lag_epochs", "done", "probe"] == 1
    assert found["operator_frontier_epoch", "loop/step"] == 2
    assert ("operator_frontier_epoch", "out") not in found


@pytest.mark.parametrize("time", ["3.5", "'3'", "(3, 4)", "datetime(2020, 1, 1)", "x3", "3 ", ""])
def test_other_times_than_integers_have_no_lag(time: str) -> None:
    """Nor has an operator that has both kinds: a wrong number is worse than none."""
    for frontier in ([time], [time, "3"]):
        found = values(document(operators={"1": {"name": "map", "scope": "", "frontier": frontier}}))
        assert not {("operator_frontier_epoch", "map"), ("operator_lag_epochs", "map")} & found.keys()


def test_what_a_document_lacks_is_left_out() -> None:
    """An operator without state has no size, and a job without topics none of them."""
    found = values(document(topics={}, snapshots={}))
    assert ("operator_state_bytes", "out") not in found
    assert not [name for name, *_ in found if name.startswith(("topic_", "snapshot_"))]
    assert ("source_lag_bytes", "tides") not in found


@pytest.mark.parametrize("state", STATES)
def test_a_job_that_has_ended_is_seen_for_a_while(state: str) -> None:
    """A scraper comes now and then. Later its samples are gone, as there may be any number of jobs."""
    job = {"name": JOB, "state": state}
    assert values(document(job=job), AT + KEPT_S)["job_state", state] == 1
    assert bool(values(document(job=job), AT + KEPT_S + 1)) == (state in {"paused", "running", "going back"})


def test_names_follow_the_conventions_of_prometheus() -> None:
    """Lower case, base units at the end, counters in `_total`, each name once, and a text that is a sentence."""
    assert max(Counter(metric.name for metric in METRICS).values()) == 1
    for metric in METRICS:
        assert re.fullmatch(r"tidewheel_[a-z]+(_[a-z]+)+", metric.name)
        assert not re.search(r"_(ms|milliseconds|kb|mb|percent|count|sum|bucket|total_\w+)$", metric.name)
        assert metric.text[0].isupper() or metric.text[0] == "1" or metric.text[0] == "0"
        assert metric.text.endswith(".")
        assert len(set(labels_of(metric))) == len(labels_of(metric))
    assert not {"time", "key", "le", "quantile"} & {label for metric in METRICS for label in labels_of(metric)}


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(), st.text(max_size=3), st.just("(4, 2)")
)
JSON = st.recursive(
    PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3))
)
THING = st.dictionaries(
    st.sampled_from([*{metric.key for metric in METRICS}, "name", "frontier", "rounds"]), JSON, max_size=8
)
SECTION = st.one_of(JSON, st.dictionaries(st.sampled_from("0123"), THING, max_size=3))
DOCUMENTS = st.dictionaries(st.sampled_from([*document()]), SECTION, max_size=6)


@law_settings(200)
@given(found=DOCUMENTS)
def test_any_document_has_each_sample_once(found: dict[str, Any]) -> None:
    """A job may be of another release: what it says in another form is left out, and nothing raises.

    Prometheus refuses all that a scrape has if one sample is there twice.
    """
    labelled = [(sample.metric.name, sample.labels) for sample in samples(JOB, found, AT)]
    assert len(labelled) == len(set(labelled))
