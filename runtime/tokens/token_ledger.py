"""The ledger of one worker: the changes of its timestamp tokens since its last step.

Any thread may use tokens. Each use is one indivisible group of changes, so that no step sees half a downgrade. A lock
guards the state of tokens. Tokens that the garbage collector finds are recorded without the lock, since the collector
may run while a thread holds the lock.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from tidewheel.progress import Change, ChangeBatch, Time
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.labels import Label

LeakPolicy: TypeAlias = Literal["fail", "warn"]
"""The effect of a leak: the dataflow fails, or the leak is only logged."""

_Stamp: TypeAlias = tuple[int, Time]
"""The place of a token: (location number, time)."""

_Drop: TypeAlias = tuple[_Stamp, str, bool]
"""The place of a dropped token, the name of its operator, and whether the token has sent."""

_REMEDY = "Send only in schedule: retain() the token, keep the answer with it, and call context.activate()"


@dataclass(frozen=True, slots=True)
class Leak:
    """A live token that its operator dropped without discarding it."""

    operator: str
    time: Time

    def describe(self, worker: int) -> str:
        return (
            f"operator {self.operator!r} lost a token for time {self.time!r} on worker {worker}: it dropped the token "
            "without discard(), such as by overwriting it. Records that it kept for that time may never be sent. "
            "Keep a token for each time, and use 'with token:' or discard() once all is sent"
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error from a wrong use of a token or an output in a thread or a coroutine, outside of the worker's step."""

    operator: str
    time: Time | None
    error: TokenError


class TokenLedger:
    """Collects groups of changes until the worker's step drains them.

    Attributes:
        held: the number of held tokens, by (location number, time), up to the last drain.
        refusals: errors that may have been lost; the worker's next step raises them.
        stepping: the id of the thread that runs the worker's step; None between two steps.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.Lock()
        self.wake = wake
        self.leaks: deque[Leak] = deque()
        self.refusals: deque[Refusal] = deque()
        self.stepping: int | None = None
        self.held: ChangeBatch[tuple[int, Time]] = ChangeBatch()
        self.labelled: list[tuple[Label, tuple[Change, ...]]] = []
        self._groups: deque[tuple[tuple[Change, ...], Label | None]] = deque()
        self._drops: deque[_Drop] = deque()
        self._held_by_label: ChangeBatch[tuple[_Stamp, Label]] = ChangeBatch()

    def record(self, *changes: Change, label: Label | None = None) -> None:
        """Add one indivisible group of changes of tokens with this label."""
        self._groups.append((changes, label))
        self.wake()

    def record_drop(self, stamp: _Stamp, label: Label | None, operator: str, *, has_sent: bool) -> None:
        """Add the end of a token that was dropped without being discarded, perhaps a leak."""
        # This comes first, since `drain` takes the drop together with the group that `record` adds.
        self._drops.append((stamp, operator, has_sent))
        self.record((stamp, -1), label=label)

    def begin_step(self) -> None:
        """Record that this thread runs a step. The worker handles errors in a step itself."""
        self.stepping = threading.get_ident()

    @property
    def is_stepping(self) -> bool:
        return threading.get_ident() == self.stepping

    def refuse(self, operator: str, time: Time | None, why: str) -> NoReturn:
        """Raise TokenError; outside of the worker's step, let the next step fail with it too.

        Otherwise records could be lost silently: in a thread or a coroutine, perhaps only a future receives the error.
        """
        if self.is_stepping:
            raise TokenError(why)
        error = TokenError(f"{why}. {_REMEDY}")
        self.refusals.append(Refusal(operator, time, error))  # before its thread discards the token
        self.wake()
        try:
            raise error
        finally:
            del error  # otherwise its traceback would keep the token until the collector runs

    def drain(self) -> list[Change]:
        """Remove and return the changes of all complete groups so far."""
        groups = [self._groups.popleft() for _ in range(len(self._groups))]
        if self._drops:
            self._find_leaks(groups)
        found: list[Change] = []
        for changes, label in groups:
            found += changes
            if label is not None:
                self.labelled.append((label, changes))
                self._held_by_label.extend(((stamp, label), difference) for stamp, difference in changes)
        self.held.extend(found)
        return found

    def _find_leaks(self, groups: Sequence[tuple[tuple[Change, ...], Label | None]]) -> None:
        """Find the leaks among the tokens that were dropped in these groups.

        A token made in these groups is not a leak if it has sent, or if the operator holds an older token for the same
        time.
        """
        drops = {id(drop[0]): drop for drop in (self._drops.popleft() for _ in range(len(self._drops)))}
        counts: dict[tuple[_Stamp, Label | None], int] = {}
        made_first: dict[int, bool] = {}
        for changes, label in groups:
            for stamp, difference in changes:
                place = stamp, label
                if place not in counts:
                    counts[place] = self.held.get(stamp) if label is None else self._held_by_label.get((stamp, label))
                if difference > 0 and (len(changes) == 1 or id(changes[-1][0]) in made_first):  # made, or taken forward
                    made_first[id(stamp)] = not counts[place]
                counts[place] += difference
                dropped = drops.pop(id(stamp), None) if difference < 0 else None
                if dropped is None:
                    continue
                _, operator, has_sent = dropped
                is_first = made_first.get(id(stamp))  # None: made before
                if is_first is None or not (has_sent or (counts[place] and not is_first)):
                    self.leaks.append(Leak(operator, stamp[1]))
        self._drops.extend(drops.values())  # the groups of these are not recorded yet

    def tokens(self) -> dict[tuple[int, Time], int]:
        """Return the number of held tokens, by (location number, time), including groups not yet drained."""
        counts: ChangeBatch[tuple[int, Time]] = ChangeBatch(self.held)
        for changes, _ in self._groups.copy():
            counts.extend(changes)
        return dict(counts)

    @property
    def is_empty(self) -> bool:
        """True if nothing was recorded since the last drain and no refusal is left."""
        return not (self._groups or self.refusals)
