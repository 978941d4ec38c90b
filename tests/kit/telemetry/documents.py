"""Documents of telemetry, made by hand, for tests of their consumers."""

from typing import Any

from tidewheel.pubsub.subscribers.view import View

BEGAN_AT = 1_764_156_000.0
"""The time at which the jobs of these documents began, in seconds since 1970."""


def operator(name: str, **parts: Any) -> dict[str, Any]:
    """Return an operator that has done nothing; ``parts`` are put in place of what it has."""
    counts = dict.fromkeys(
        ("schedules", "messages_in", "records_in", "messages_out", "records_out", "records_dropped", "queue", "leaks"),
        0,
    )
    return {"name": name, "scope": "", "kind": "operator", "seconds": 0.0, "frontier": ["0"], **counts, **parts}


def edge(source: str, target: str, **parts: Any) -> dict[str, Any]:
    """Return an edge over which nothing went, from one operator to another, by their numbers."""
    counts = {"messages": 0, "records": 0, "bytes": 0, "fill": 0.0}
    return {"source": source, "target": target, "source_port": 0, "target_port": 0, "label": "", **counts, **parts}


def worker(**parts: Any) -> dict[str, Any]:
    """Return a worker that has done nothing."""
    counts = dict.fromkeys(("steps", "bytes_in_flight", "progress_messages", "progress_bytes", "leaks"), 0)
    return {"pid": 4711, "node": "node-a", "state": "running", "rss": 100 << 20, "cpu_seconds": 0.0, **counts, **parts}


def document(
    *,
    at: float = BEGAN_AT,
    name: str = "words-0badcafe",
    state: str = "running",
    job: dict[str, Any] | None = None,
    **parts: Any,
) -> dict[str, Any]:
    """Return a document of a job with one input, one operator and one worker; ``parts`` are put in place of its own.

    Args:
        at: when it was made, in seconds since 1970.
        name: the name of the job.
        state: its state.
        job: more of what ``document["job"]`` has.
        **parts: such as ``operators={"0": operator("map")}``.
    """
    described = {
        "name": name,
        "dataflow": name.rpartition("-")[0] or name,
        "engine": "local",
        "workers": 1,
        "state": state,
        "since": BEGAN_AT,
        "host": name,
        "notes": [],
        "returns": 0,
    }
    usual: dict[str, Any] = {
        "operators": {"0": operator("input words", kind="input"), "1": operator("map")},
        "edges": {"0": edge("0", "1")},
        "probes": {},
        "inputs": {},
        "loops": {},
        "workers": {"0": worker()},
        "topics": {},
        "log": {},
    }
    return {"at": at, "job": {**described, **(job or {})}, "picture": "<svg></svg>", **usual, **parts}


def views(*documents: dict[str, Any]) -> list[View]:
    """Return the views of successive documents."""
    return [View(made, documents[place - 1] if place else None) for place, made in enumerate(documents)]
