"""A job made by hand with a nested loop, two workers, an input and a topic, for tests of the page."""

from typing import Any

from tests.kit.gateway.paged import HandJobs, picture
from tests.kit.telemetry.documents import BEGAN_AT, document, edge, operator, worker
from tidewheel.display.merge_patch import merge

NAME = "routes-0badcafe"
RATE = 1000
"""Records that the input sends, in each second."""

EXPLANATION = """'done' waits: times from 3 on can still arrive there
1. operator 'search' holds 2 tokens for time 3 on worker 1
   reaches it at 3, by search > leave > done (time unchanged)
   -> call discard() on them, or downgrade them"""

_OPERATORS = {
    "0": ("input edges", "", "input"),
    "1": ("enter", "outer", "operator"),
    "2": ("relax", "outer", "operator"),
    "3": ("enter inner", "outer/inner", "operator"),
    "4": ("search", "outer/inner", "operator"),
    "5": ("leave", "outer", "operator"),
    "6": ("publish ranks", "", "output"),
    "7": ("probe done", "", "output"),
}
_EDGES = [("0", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("4", "3"), ("4", "5"), ("5", "2"), ("5", "6"), ("5", "7")]


def routes(second: int, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the job after so many seconds; ``changes`` is a merge patch."""
    sent = RATE * second
    operators = {
        number: operator(
            name,
            scope=scope,
            kind=kind,
            frontier=[str(second)] if not scope else [f"({second}, 1)"],
            records_in=0 if kind == "input" else sent // (int(number) or 1),
            records_out=sent // (int(number) + 1),
            seconds=0.1 * int(number) * second,
            messages_in=sent // 100,
            messages_out=sent // 100,
            state_keys=50 * int(number),
        )
        for number, (name, scope, kind) in _OPERATORS.items()
    }
    edges = {
        str(number): edge(source, target, records=sent // (number + 1), bytes=8 * sent, fill=0.1 * (number % 4))
        for number, (source, target) in enumerate(_EDGES)
    }
    made = document(
        at=BEGAN_AT + second,
        name=NAME,
        job={"workers": 2},
        picture=picture(operators, edges),
        operators=operators,
        edges=edges,
        probes={
            "done": {"operator": "7", "kind": "probe", "frontier": [str(second)], "moved": BEGAN_AT + second},
            "ranks": {"operator": "6", "kind": "topic", "frontier": [str(second)], "moved": BEGAN_AT + second},
        },
        inputs={
            "edges": {
                "operator": "0",
                "batches": second,
                "records": sent,
                "bytes": 8 * sent,
                "seconds_waited": 0.0,
                "is_open": True,
                "epoch": str(second),
            }
        },
        loops={
            "outer": {"rounds": {str(second): 4}, "epochs": 1, "ended": {"3": 7, "4": 12, "9": 1}},
            "outer/inner": {"rounds": {f"({second}, 4)": 2}, "epochs": 1, "ended": {"1": 40, "2": 9}},
        },
        workers={
            str(number): worker(
                pid=4711 + number, steps=40 * second, cpu_seconds=0.4 * second, rss=(120 + number) << 20
            )
            for number in range(2)
        },
        topics={
            "ranks": {
                "operator": "6",
                "delivery": "best_effort",
                "partitions": {"0": _partition(sent // 7), "1": _partition(sent // 7)},
            }
        },
        snapshots={"folder": "/snapshots", "number": 3, "taken": BEGAN_AT, "bytes": 5 << 20, "seconds": 0.4},
        log={"1": {"at": BEGAN_AT, "level": "info", "text": "snapshot 3 was taken"}},
    )
    return merge(made, changes or {})


def _partition(records: int) -> dict[str, int]:
    counts = ("subscribers", "overflows", "epochs_dropped", "queued_bytes", "lag_bytes", "lag_messages", "holders")
    return {"records": records, **dict.fromkeys(counts, 0)}


def run_for_two_seconds() -> HandJobs:
    """Return the job after its first two seconds, for who follows it."""
    jobs = HandJobs()
    jobs.put(routes(1), routes(2))
    return jobs
