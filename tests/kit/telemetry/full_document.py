"""Telemetry documents made by hand, as a job sends them."""

import copy
from collections.abc import Mapping
from typing import Any

AT = 1_764_156_000.25

_DOCUMENT: Mapping[str, Any] = {
    "at": AT,
    "job": {
        "name": "sums-d24a72a9",
        "dataflow": "sums",
        "engine": "ray",
        "workers": 2,
        "state": "running",
        "notes": [],
    },
    "picture": "<svg></svg>",
    "operators": {
        "0": {"name": "numbers", "scope": "", "kind": "input", "frontier": ["4"], "records_in": 0, "records_out": 90},
        "3": {
            "name": "map",
            "scope": "",
            "kind": "operator",
            "schedules": 12,
            "seconds": 0.5,
            "messages_in": 9,
            "records_in": 90,
            "messages_out": 8,
            "records_out": 80,
            "frontier": ["3"],
            "queue": 1,
            "state_keys": 7,
            "state_bytes": 700,
            "tokens": [{"time": "3", "count": 2, "worker": 0, "since": AT, "awaited": True}],
            "leaks": 0,
        },
        "2": {"name": "loop/enter", "scope": "loop", "kind": "operator", "frontier": ["3"], "records_in": 60},
        "4": {"name": "loop/step", "scope": "loop", "kind": "operator", "frontier": ["(2, 5)"], "records_in": 70},
        "5": {"name": "out", "scope": "", "kind": "output", "frontier": [], "records_in": 60},
    },
    "edges": {"5": {"source": "3", "target": "4", "messages": 8, "records": 80, "bytes": 640, "fill": 0.25}},
    "probes": {
        "done": {"operator": "5", "frontier": ["3"], "moved": AT - 2, "kind": "probe"},
        "ranks": {"operator": "5", "frontier": [], "moved": AT - 1, "kind": "topic"},
    },
    "inputs": {
        "numbers": {"batches": 4, "records": 90, "bytes": 720, "seconds_waited": 1.5, "is_open": True, "epoch": "4"}
    },
    "sources": {"tides": {"operator": "0", "partitions": 3, "records": 40, "lag_records": 7, "lag_seconds": 0.5}},
    "sinks": {"high": {"operator": "5", "records": 30, "epochs": 3, "waiting": 2, "committed": AT - 5}},
    "loops": {"loop": {"rounds": {"2": 5, "3": 1}, "epochs": 60, "ended": {"4": 2, "10": 1}, "taken": 18}},
    "workers": {
        "0": {"steps": 100, "pid": 7, "node": "a", "state": "running", "rss": 1 << 20, "cpu_seconds": 2.5, "leaks": 0},
        "1": {"steps": 90, "pid": 8, "node": "a", "state": "dead"},
    },
    "topics": {
        "ranks": {
            "operator": "5",
            "delivery": "best_effort",
            "partitions": {"0": {"sequence": 6, "records": 60, "subscribers": 1, "lag_messages": 2, "lag_bytes": 99}},
        }
    },
    "snapshots": {"folder": "/s", "number": 3, "taken": AT - 60, "bytes": 5000, "written_bytes": 500, "seconds": 0.125},
    "log": {},
}


def document(**sections: Any) -> dict[str, Any]:
    """Return the telemetry of a job with a loop, in which these sections are others."""
    return {**copy.deepcopy(dict(_DOCUMENT)), **sections}
