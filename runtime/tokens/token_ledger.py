"""The ledger of one worker: what happened to its timestamp tokens since its last step.

Tokens may be used from any thread. Each use is recorded as one group of changes, and a group is never taken apart: a
downgrade cannot be seen half done. The lock guards the tokens' own state; a token that is collected as garbage records
without it, since the collector may run while the lock is held.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tidewheel.progress import Change, ChangeBatch, Time
from tidewheel.runtime.substreams.labels import Label


@dataclass(frozen=True, slots=True)
class Leak:
    """A token that nobody discarded: it was collected as garbage while it was live."""

    operator: str
    time: Time

    def describe(self) -> str:
        """Say for people what was forgotten, and what to do."""
        return (
            f"operator {self.operator!r} dropped a live token for time {self.time!r} without discard(); it was "
            "discarded for it. Use 'with token:' or discard() it when it is no longer needed"
        )


class TokenLedger:
    """Collects groups of changes until the worker's step takes them.

    Args:
        wake: called, from any thread, when a group is recorded; the worker may be asleep.

    Attributes:
        held: how many tokens are held, by (location number, time), as far as groups were drained.
        leaks: the tokens that nobody discarded; the worker's step takes them.
        labelled: the groups that were drained of tokens of substreams, with their labels; who drains takes them, too.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.Lock()
        self.wake = wake
        self.leaks: deque[Leak] = deque()
        self.held: ChangeBatch[tuple[int, Time]] = ChangeBatch()
        self.labelled: list[tuple[Label, tuple[Change, ...]]] = []
        self._groups: deque[tuple[tuple[Change, ...], Label | None]] = deque()

    def record(self, *changes: Change, label: Label | None = None) -> None:
        """Add one indivisible group of changes, of tokens of the substream with this label."""
        self._groups.append((changes, label))
        self.wake()

    def record_leak(self, leak: Leak, change: Change, label: Label | None = None) -> None:
        """Add the discarding of a token that nobody discarded."""
        self.leaks.append(leak)
        self.record(change, label=label)

    def drain(self) -> list[Change]:
        """Take the changes of all groups recorded so far, whole groups only."""
        found: list[Change] = []
        while self._groups:
            changes, label = self._groups.popleft()
            found += changes
            if label is not None:
                self.labelled.append((label, changes))
        self.held.extend(found)
        return found

    def tokens(self) -> dict[tuple[int, Time], int]:
        """Return how many tokens are held now, by (location number, time), groups not drained included."""
        counts: ChangeBatch[tuple[int, Time]] = ChangeBatch(self.held)
        for changes, _ in self._groups.copy():
            counts.extend(changes)
        return dict(counts)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded since the last drain."""
        return not self._groups
