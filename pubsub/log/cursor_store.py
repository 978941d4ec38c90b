"""How far each durable subscription has come: a small value for each name.

It is a `Log` of the changes, of which each segment begins with all that was so then. So changing is appending, what was
said of torn writes, damage and full disks there holds here, and the files stay within a few times the size of what is
kept.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from tidewheel.pubsub.log.errors import LogError, LogFull
from tidewheel.pubsub.log.files import FILES, Files
from tidewheel.pubsub.log.record_format import Entry, LogIdentity
from tidewheel.pubsub.log.segmented_log import Log

if TYPE_CHECKING:
    from typing import Self

_SEGMENT_BYTES = 1 << 18
_PUT, _REMOVE = 1, 2


class CursorStore:
    """The cursors of one topic, or of one partition of it; `CursorStore.open` makes one. One thread at a time.

    Args:
        log: of the changes; it is closed with this.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        replay = log.snapshot_at(log.last_tick)
        self._cursors = msgspec.msgpack.decode(replay.snapshot, type=dict[str, bytes])
        self._changes = log.last_tick
        for record in replay.records:
            name, cursor = msgspec.msgpack.decode(record.payload, type=tuple[str, bytes])
            if record.kind == _PUT:
                self._cursors[name] = cursor
            else:
                self._cursors.pop(name, None)

    @classmethod
    def open(cls, directory: Path, identity: LogIdentity, *, wait_s: float = 0.0, files: Files = FILES) -> "Self":
        """Return the store in a directory of its own, which is made if there is none. Close it.

        Raises:
            LogError: the same as for `Log.open`.
        """
        identity = structs.replace(identity, contents="cursors")
        empty = msgspec.msgpack.encode({})
        log = Log.open(directory, identity, snapshot=empty, segment_bytes=_SEGMENT_BYTES, wait_s=wait_s, files=files)
        try:
            log.trim(log.last_tick + 1)
            return cls(log)
        except BaseException:
            log.close()
            raise

    def items(self) -> Mapping[str, bytes]:
        """Return the cursors by name, with changes that are not durable yet; a view, which changes with them."""
        return MappingProxyType(self._cursors)

    def put(self, name: str, cursor: bytes) -> None:
        """Keep a cursor for a name, in place of the one before; it is not durable before `sync` returns.

        Raises:
            LogFull: there is no room; the cursor is the one before.
            LogFailed: the store could not be written, now or before.
        """
        if self._cursors.get(name) != cursor:
            self._append(_PUT, name, cursor)
            self._cursors[name] = cursor

    def remove(self, name: str) -> None:
        """Forget a name, if it is known; raises what `put` raises."""
        if name in self._cursors:
            self._append(_REMOVE, name, b"")
            del self._cursors[name]

    def _append(self, kind: int, name: str, cursor: bytes) -> None:
        self._log.append([Entry(self._changes + 1, kind, (msgspec.msgpack.encode((name, cursor)),))])
        self._changes += 1

    def sync(self) -> None:
        """Make durable what was changed, with one fdatasync; rarely, with a new file in place of the old.

        Raises:
            LogFailed: that failed, now or before; what was changed since the last time may be durable or not.
        """
        self._log.sync()
        if self._log.is_segment_due:
            try:
                self._log.begin_segment(msgspec.msgpack.encode(self._cursors))
            except LogFull:
                return  # it is durable as it is
            with suppress(LogError):  # the next time removes it, too
                self._log.trim(self._changes + 1)

    def close(self) -> None:
        """Make durable what was changed, unless the store has failed, and let go of the directory."""
        self._log.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
