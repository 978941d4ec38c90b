"""One view of a job: its document, and the changes since the previous view; no I/O."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tidewheel.display.merge_patch import merge
from tidewheel.progress import ProtocolError

ENDED_STATES = frozenset({"complete", "failed", "stopped"})
"""The states of jobs that have ended."""


class View(msgspec.Struct, frozen=True):
    """A job at one moment."""

    document: Mapping[str, Any]
    before: Mapping[str, Any] | None = None

    @property
    def seconds(self) -> float:
        """The seconds since the previous view, by the job's clock; 0 for the first."""
        return 0.0 if self.before is None else float(self.document["at"] - self.before["at"])

    @property
    def has_ended(self) -> bool:
        return self.document.get("job", {}).get("state") in ENDED_STATES

    def rate(self, *path: str) -> float | None:
        """Return the growth of a count per second since the previous view.

        Return None if there is no previous view or count, or the count has fallen.

        >>> before = {"at": 10.0, "operators": {"3": {"records_in": 100}}}
        >>> View({"at": 12.0, "operators": {"3": {"records_in": 160}}}, before).rate("operators", "3", "records_in")
        30.0
        """
        new, old = count_at(self.document, path), count_at(self.before or {}, path)
        if new is None or old is None or new < old or self.seconds <= 0:
            return None
        return (new - old) / self.seconds


def count_at(document: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    found: Any = document
    for key in path:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


class Follower:
    """Makes views from the telemetry records of a job, from the first full document on."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._next: int | None = None

    def receive(self, time: int, record: Mapping[str, Any]) -> View | None:
        """Return the view for a record at an epoch; None for a patch whose document is missing.

        Raises:
            ProtocolError: the record is not a telemetry record.
        """
        if not isinstance(record, Mapping) or not isinstance(record.get("document"), dict):
            raise ProtocolError(f"epoch {time} of a job's telemetry has a record that is none of telemetry: {record!r}")
        before = None if self._view is None else self._view.document
        if record.get("whole"):
            document = record["document"]
        elif before is None or self._next != time:
            self._next = None
            return None
        else:
            document = merge(before, record["document"])
        self._view, self._next = View(document, before), time + 1
        return self._view
