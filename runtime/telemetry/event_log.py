"""The last notable events of a job, found by comparing documents, and the last lines of its logs."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tidewheel.host.recent_lines import LogLine

MOST_EVENTS: Final = 50
_ALIKE: Final = 80

_LEVELS = {"failed": "error", "going back": "warning", "stopped": "warning"}
_Event: TypeAlias = tuple[str, str, dict[str, str]]
"""The level of an event, its text, and fields that have the number of its worker or the name of its operator."""

_LOST = {"dead": "has died", "silent": "does not answer"}


class EventLog:
    """Compares each document with the previous one, and keeps notable events and log lines."""

    def __init__(self) -> None:
        self._events: deque[tuple[str, dict[str, Any]]] = deque(maxlen=MOST_EVENTS)
        self._lines: deque[tuple[str, dict[str, Any]]] = deque(maxlen=MOST_EVENTS)
        self._heard: dict[str, LogLine] = {}
        self._next = 1

    def look(
        self,
        before: Mapping[str, Any] | None,
        now: Mapping[str, Any],
        lines: Iterable[tuple[str, Sequence[LogLine]]] = (),
    ) -> dict[str, dict[str, Any]]:
        """Compare two documents; return the last 50 events and the last 50 lines, by number."""
        for process, logged in lines:
            self._add_lines(process, logged, now)
        if before is not None:
            for level, text, parts in _differences(before, now):
                self._events.append(self._numbered({"at": now["at"], "level": level, "text": text, **parts}))
        return dict(sorted([*self._events, *self._lines], key=lambda entry: int(entry[0])))

    def _add_lines(self, process: str, logged: Sequence[LogLine], now: Mapping[str, Any]) -> None:
        last = self._heard.get(process)
        new = [line for line in logged if last is None or (line.at, line.number) > (last.at, last.number)]
        if not new:
            return
        self._heard[process] = new[-1]
        missed = new[0].number - last.number - 1 if last is not None and last.number < new[0].number else 0
        if missed:
            text = f"{missed} earlier line(s) of this log are left out"
            self._lines.append(self._numbered({"at": new[0].at, "level": "info", "text": text, **_of(new[0], process)}))
        error = now["job"].get("error", "")
        for line in new:
            if not error or error[:_ALIKE] not in line.text:  # the text of an event has it already
                entry = {"at": line.at, "level": line.level, "text": line.text, "logger": line.logger}
                self._lines.append(self._numbered({**entry, **_of(line, process)}))

    def _numbered(self, entry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        number, self._next = self._next, self._next + 1
        return str(number), entry


def _of(line: LogLine, process: str) -> dict[str, str]:
    worker = process if line.worker is None else str(line.worker)
    found = {"worker": worker if worker.isdecimal() else None, "operator": line.operator}
    return {name: value for name, value in found.items() if value is not None}


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
    elif now not in (before, "ended") and before in _LOST:
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
