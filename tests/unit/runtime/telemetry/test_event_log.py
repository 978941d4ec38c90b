"""Tests of notable events: what two documents differ in."""

from dataclasses import replace
from typing import Any

import pytest

from tests.kit.telemetry.documents import document, operator, worker
from tidewheel.host.recent_lines import LogLine
from tidewheel.runtime.telemetry.event_log import MOST_EVENTS, EventLog


def events(*documents: dict[str, Any]) -> list[tuple[str, str]]:
    """Return level and text of the events of successive documents."""
    log, told = EventLog(), {}
    for before, now in zip([None, *documents], documents, strict=False):
        told = log.look(before, now)
    return [(event["level"], event["text"]) for event in told.values()]


def test_documents_that_are_alike_have_no_event() -> None:
    """Counts grow without a line."""
    busy = document(operators={"0": operator("map", records_in=7)})
    assert events(document(), busy, busy) == []


@pytest.mark.parametrize(
    ("now", "event"),
    [
        (document(state="failed", job={"error": "no 7"}), ("error", "the job is failed: no 7")),
        (document(state="going back"), ("warning", "the job is going back")),
        (document(state="complete"), ("info", "the job is complete")),
        (
            document(job={"returns": 1}),
            ("warning", "the job has gone back to its last snapshot, and goes on from there"),
        ),
        (document(workers={"0": worker(state="dead")}), ("warning", "worker 0 has died")),
        (document(workers={"0": worker(state="silent")}), ("warning", "worker 0 does not answer")),
        (document(operators={"1": operator("map", leaks=2)}), ("warning", "operator 'map' has dropped 2 token(s)")),
        (
            document(operators={"1": operator("map", busy={"worker": "0", "seconds": 1.24})}),
            ("info", "worker 0 is in operator 'map' for 1.2 s"),
        ),
        (document(snapshots={"number": 3}), ("info", "snapshot 3 was taken")),
    ],
    ids=lambda made: made[1] if isinstance(made, tuple) else "",
)
def test_each_kind_of_event(now: dict[str, Any], event: tuple[str, str]) -> None:
    """In words that name what it is about; and once, not at each look."""
    assert events(document(), now) == [event]
    assert events(document(), now, now) == [event]


def test_subscribers_that_were_cut_off_are_told() -> None:
    """A topic that is seen for the first time is not: what was before is not known."""
    before, now = (document(topics={"ranks": {"partitions": {"0": {"overflows": overflows}}}}) for overflows in (1, 3))
    assert events(document(), before, now) == [
        ("warning", "topic 'ranks': 2 subscriber(s) fell behind, and were cut off")
    ]


def test_a_worker_that_answers_again_is_told() -> None:
    """Not one that was only busy."""
    silent, busy = (document(workers={"0": worker(state=state)}) for state in ("silent", "busy"))
    assert events(silent, document()) == [("info", "worker 0 answers again")]
    assert events(busy, document()) == []
    assert events(silent, document(workers={"0": worker(state="ended")})) == []


def test_only_the_last_events_are_kept() -> None:
    """By numbers that go on, so that a merge patch removes the old ones."""
    log, told = EventLog(), {}
    states = ("running", "paused")
    for number in range(MOST_EVENTS + 10):
        told = log.look(document(state=states[number % 2]), document(state=states[1 - number % 2]))
    assert list(told) == [str(number) for number in range(11, MOST_EVENTS + 11)]


def line(number: int, text: str = "it is late", **parts: Any) -> LogLine:
    return LogLine(number, 10.0 + number, "warning", text, "mine", **parts)


def told(log: EventLog, process: str, *lines: LogLine, now: dict[str, Any] | None = None) -> list[str]:
    """Return the texts of the log once a process has told these lines."""
    shown = now or document()
    return [entry["text"] for entry in log.look(shown, shown, [(process, lines)]).values()]


def test_lines_of_logs_are_told_once() -> None:
    """Those of a worker with its number, those of the driver without, and with what they are about."""
    log = EventLog()
    assert told(log, "1", line(1)) == ["it is late"]
    assert told(log, "1", line(1), line(2, "later")) == ["it is late", "later"]
    found = log.look(None, document(), [("driver", [line(1, "of the driver", operator="map")])])
    assert found["1"] == {"at": 11.0, "level": "warning", "text": "it is late", "logger": "mine", "worker": "1"}
    assert {name: found["3"].get(name) for name in ("worker", "operator")} == {"worker": None, "operator": "map"}


def test_a_process_that_has_begun_again_is_heard() -> None:
    """Its lines are counted from 1 again."""
    log = EventLog()
    told(log, "1", line(8, "before"))
    assert told(log, "1", replace(line(1, "after"), at=30.0)) == ["before", "after"]


def test_lines_that_are_missed_are_counted() -> None:
    """A worker keeps only its last ones."""
    log = EventLog()
    told(log, "1", line(1))
    assert told(log, "1", line(9, "now")) == ["it is late", "7 earlier line(s) of this log are left out", "now"]


def test_lines_do_not_displace_events() -> None:
    """A worker that logs much leaves room for what has happened."""
    log, before = EventLog(), document(state="paused")
    log.look(before, document())
    for number in range(1, 200):
        told(log, "1", line(number, f"line {number}"))
    texts = told(log, "1")
    assert texts[0] == "the job is running"
    assert len(texts) == MOST_EVENTS + 1


def test_the_error_of_the_job_is_told_once() -> None:
    """The driver logs it, too."""
    failed = document(state="failed", job={"error": "operator 'map' failed on worker 0"})
    log = EventLog()
    log.look(document(), failed, [("driver", [line(1, "job 'words' failed: operator 'map' failed on worker 0")])])
    assert told(log, "driver", now=failed) == ["the job is failed: operator 'map' failed on worker 0"]
