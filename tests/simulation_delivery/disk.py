"""A disk that keeps what was synced, and of what was written after that as much as it likes."""

from random import Random
from typing import Any

from tidewheel.pubsub.exactly_once.standing import Cursor, Standing

MESSAGE, RESERVATION = "message", "reservation"
_AT_ONCE = 30


class Disk:
    """The log of one pubend as records, of which a crash tears the last.

    Attributes:
        published: all messages that are or were durable, by tick, forgotten or not.
        removed_end, lost_end: where the records begin, and one after the last message that was before that.
    """

    def __init__(self) -> None:
        self._durable: list[tuple[str, int, Any]] = []
        self._written: list[tuple[str, int, Any]] = []
        self._standings: dict[str, Standing | None] = {}
        self.published: dict[int, Any] = {}
        self.standings: dict[str, Standing] = {}
        self.removed_end = self.lost_end = 0

    def write(self, kind: str, tick: int, message: Any = None) -> None:
        """Write a record, which is not durable."""
        self._written.append((kind, tick, message))

    def write_cursor(self, cursor: Cursor) -> None:
        """Write what a subscription has acknowledged, and who has it, which is not durable."""
        self._standings[cursor.name] = cursor.standing

    def sync(self, records: int) -> list[tuple[str, int, Any]]:
        """Make the first records that were written durable; return them."""
        synced, self._written = self._written[:records], self._written[records:]
        self._durable += synced
        self.published |= {tick: message for kind, tick, message in synced if kind == MESSAGE}
        self.standings = {name: standing for name, standing in self._standings.items() if standing is not None}
        return synced

    @property
    def unsynced(self) -> int:
        """How many records are written and not durable."""
        return len(self._written)

    def crash(self, random: Random) -> None:
        """Lose some of what was not durable, from the end; what is left is found when the log is opened."""
        self.sync(random.randint(0, len(self._written)))
        self._written.clear()
        self._standings = dict(self.standings)

    def trim(self, tick: int) -> None:
        """Forget the messages before a tick."""
        removed = [at for kind, at, _ in self._durable if kind == MESSAGE and at < tick]
        self.removed_end = max(self.removed_end, tick)
        self.lost_end = max([self.lost_end, *(at + 1 for at in removed)])
        self._durable = [record for record in self._durable if record[1] >= tick or record[0] == RESERVATION]

    def read(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, Any]], int]:
        """Return messages of a range, and how far that is all: some at a time, as a log that takes its time does."""
        found = []
        for kind, tick, message in self._durable:
            if kind == MESSAGE and first <= tick < end:
                found.append((tick, message))
                max_bytes -= len(message)
                if max_bytes <= 0 or len(found) >= _AT_ONCE:
                    return found, tick + 1
        return found, end

    @property
    def next_tick(self) -> int:
        """The first tick that was neither logged nor reserved."""
        logged = [tick + 1 for kind, tick, _ in self._durable if kind == MESSAGE] + [
            max(self.published, default=-1) + 1
        ]
        return max(logged + [tick for kind, tick, _ in self._durable if kind == RESERVATION])

    @property
    def messages(self) -> int:
        """How many messages there are."""
        return sum(kind == MESSAGE for kind, _, _ in self._durable)
