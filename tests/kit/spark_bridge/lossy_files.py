"""Files of a machine that may lose power at any call, with what was not made durable until then, or have no room."""

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidewheel.spark_bridge.structured_streaming.epoch_files import EpochFiles


class PowerLost(BaseException):
    """Nothing runs after this: no handler for errors either."""


class LossyFiles(EpochFiles):
    """Real files, of which a part may be gone once the power is.

    At the call number ``fails_at`` the power goes, before the call or after it. In `lose_power` the latest changes of
    names in every folder since its last sync are undone, as many as ``choices`` says, and what was not synced of a file
    is cut off.

    Args:
        choices: says what is lost.
        fails_at: at which call, from 1; None for never.
        is_after: whether that one is done.
        is_full: whether it is not the power that goes, but the call that raises, and others may be tried.
    """

    def __init__(
        self, choices: random.Random, fails_at: int | None = None, *, is_after: bool = False, is_full: bool = False
    ) -> None:
        self.calls = 0
        self._choices = choices
        self._fails_at = fails_at
        self._is_after = is_after
        self._is_full = is_full
        self._undo: dict[Path, list[Callable[[], Any]]] = {}
        self._unsynced: set[int] = set()

    def write_table(self, path: Path, table: Any) -> None:
        self._call(lambda: self._make(path, lambda: super(LossyFiles, self).write_table(path, table)))

    def write_text(self, path: Path, text: str) -> None:
        self._call(lambda: self._make(path, lambda: super(LossyFiles, self).write_text(path, text)))

    def sync_file(self, path: Path) -> None:
        self._call(lambda: self._unsynced.discard(path.stat().st_ino))

    def sync_directory(self, path: Path) -> None:
        self._call(lambda: self._undo.pop(path, None))

    def rename(self, old: Path, new: Path) -> None:
        def undo(before: bytes | None) -> None:
            new.rename(old)
            if before is not None:
                new.write_bytes(before)

        before = new.read_bytes() if new.exists() else None
        self._call(lambda: self._note(new.parent, super(LossyFiles, self).rename(old, new), lambda: undo(before)))

    def remove(self, path: Path) -> None:
        before = path.read_bytes() if path.exists() else None
        back = (lambda: None) if before is None else (lambda: path.write_bytes(before) and None)
        self._call(lambda: self._note(path.parent, super(LossyFiles, self).remove(path), back))

    def lose_power(self) -> None:
        """Lose what was not made durable."""
        for folder in [folder for folder in self._undo if folder.is_dir()]:
            for path in folder.iterdir():
                if path.is_file() and path.stat().st_ino in self._unsynced:
                    content = path.read_bytes()
                    path.write_bytes(content[: self._choices.randint(0, len(content))])
        for changes in self._undo.values():
            for undo in reversed(changes[self._choices.randint(0, len(changes)) :]):
                undo()

    def _make(self, path: Path, write: Callable[[], None]) -> None:
        write()
        self._unsynced.add(path.stat().st_ino)
        self._note(path.parent, None, lambda: path.unlink(missing_ok=True))

    def _note(self, folder: Path, _done: None, undo: Callable[[], Any]) -> None:
        self._undo.setdefault(folder, []).append(undo)

    def _call(self, do: Callable[[], Any]) -> None:
        self.calls += 1
        is_now = self.calls == self._fails_at
        if self._fails_at is not None and not self._is_full and self.calls > self._fails_at:
            raise PowerLost
        if not is_now or self._is_after:
            do()
        if is_now:
            raise OSError(errno.ENOSPC, "No space left on device") if self._is_full else PowerLost
