"""The last notable events of a job: each a difference of two documents, in words."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

MOST_EVENTS: Final = 50

_LEVELS = {"failed": "error", "going back": "warning", "stopped": "warning"}
_Event: TypeAlias = tuple[str, str, dict[str, str]]
"""Its level, its text, and the worker and operator that it is about."""

_LOST = {"dead": "has died", "silent": "does not answer"}


class EventLog:
    """Compares each document with the one before, and keeps what is worth a line."""

    def __init__(self) -> None:
        self._events: dict[str, dict[str, Any]] = {}
        self._next = 1

    def look(self, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the last events, by number; those before the first document are not known."""
        if before is not None:
            for level, text, parts in _differences(before, now):
                self._events[str(self._next)] = {"at": now["at"], "level": level, "text": text, **parts}
                self._next += 1
        while len(self._events) > MOST_EVENTS:
            del self._events[next(iter(self._events))]
        return dict(self._events)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[_Event]:
    yield from _of_job(before, now)
    for number, worker in now["workers"].items():
        yield from _of_worker(number, before["workers"].get(number, {}).get("state"), worker["state"])
    for number, operator in now["operators"].items():
        yield from _of_operator(before["operators"].get(number, {}), operator)
    for name, topic in now["topics"].items():
        yield from _of_topic(name, before["topics"].get(name, {}).get("partitions", {}), topic["partitions"])


def _of_job(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[_Event]:
    job, earlier = now["job"], before["job"]
    if job["state"] != earlier["state"]:
        reason = f": {job['error']}" if "error" in job else ""
        yield _LEVELS.get(job["state"], "info"), f"the job is {job['state']}{reason}", {}
    if job["returns"] > earlier["returns"]:
        yield "warning", "the job has gone back to its last snapshot, and goes on from there", {}
    snapshot = now.get("snapshots", {}).get("number", 0)
    if snapshot > before.get("snapshots", {}).get("number", 0):
        yield "info", f"snapshot {snapshot} was taken", {}


def _of_worker(number: str, before: str | None, now: str) -> Iterator[_Event]:
    if now != before and now in _LOST:
        yield "warning", f"worker {number} {_LOST[now]}", {"worker": number}
    elif now != before and before in _LOST:
        yield "info", f"worker {number} answers again", {"worker": number}


def _of_operator(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[_Event]:
    name, leaks = now["name"], now["leaks"] - before.get("leaks", 0)
    if leaks > 0:
        yield "warning", f"operator {name!r} has dropped {leaks} token(s)", {"operator": name}
    if "busy" in now and "busy" not in before:
        busy = now["busy"]
        text = f"worker {busy['worker']} is in operator {name!r} for {busy['seconds']:.1f} s"
        yield "info", text, {"worker": busy["worker"], "operator": name}


def _of_topic(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[_Event]:
    known = [(counts, before[number]) for number, counts in now.items() if number in before]
    lost = sum(counts.get("overflows", 0) - earlier.get("overflows", 0) for counts, earlier in known)
    if lost > 0:
        yield "warning", f"topic {name!r}: {lost} subscriber(s) fell behind, and were cut off", {}
