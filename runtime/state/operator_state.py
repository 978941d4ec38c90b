"""The state of one operator on one worker, for snapshots.

An operator that is built again asks for the same names, and receives its saved state.
"""

import pickle
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import compress
from typing import Any, TypeAlias, TypeVar

from tidewheel.display.checked_name import check_name
from tidewheel.progress import GraphError
from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.state.keyed_state import KeyedChanges, KeyedCut, KeyedState, entries_of
from tidewheel.runtime.state.state_pickling import MakeToken, Stamp, TokenPlace, pickle_state, unpickle_state
from tidewheel.runtime.tokens.notificator import Notificator
from tidewheel.runtime.tokens.timestamp_token import TimestampToken

State = TypeVar("State")

CAPTURED = "captured"
"""The name of the state of captures: pairs of time and batch, in order of arrival."""

Split: TypeAlias = Callable[[Any, int], Sequence[Any]]
"""Called with a state and the number of workers; returns each worker's part, None for no part."""

Owners: TypeAlias = Callable[[list[Any], int], Sequence[int]]
"""Called with keys and the number of workers; returns the worker that owns each key."""

Merge: TypeAlias = Callable[[Any, Any], Any]
"""Called with the states of two workers; returns one state. It may change the first."""

Migrate: TypeAlias = Sequence[Callable[[Any], Any]]
"""Functions that convert a state, or each value of a keyed state, from an older form to the next, oldest first."""


@dataclass(slots=True)
class SavedOperator:
    """The initial state of one operator on one worker, from the files of one or several workers.

    Attributes:
        states: the state of each saved worker by name, pickled.
        times: for each saved worker, the tokens of each notificator, pickled, in the order in which they were made.
        formats: by name of a state, how many ``migrate=`` functions were applied to it so far; missing for none.
    """

    worker: int = 0
    workers: int = 1
    is_rescaled: bool = False
    states: dict[str, list[bytes]] = field(default_factory=dict)
    keyed: dict[str, list[KeyedChanges]] = field(default_factory=dict)
    times: list[list[bytes]] = field(default_factory=list)
    formats: dict[str, int] = field(default_factory=dict)
    frozen: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorCut:
    states: dict[str, bytes] = field(default_factory=dict)
    keyed: dict[str, KeyedCut] = field(default_factory=dict)
    times: list[bytes] = field(default_factory=list)
    stamps: list[Stamp] = field(default_factory=list)
    formats: dict[str, int] = field(default_factory=dict)
    frozen: dict[str, Any] = field(default_factory=dict)


class OperatorState:
    """Provides an operator's state, and collects it for a snapshot.

    Args:
        is_tracked: whether the job takes snapshots, for which keyed states must note changes.
    """

    def __init__(self, operator: str, saved: SavedOperator | None, *, is_tracked: bool, make_token: MakeToken) -> None:
        self.operator = operator
        self._saved = saved
        self._is_tracked = is_tracked
        self._make_token = make_token
        self.states: dict[str, Any] = {}
        self.by_key: dict[str, dict[Any, Any]] = {}
        self._formats: dict[str, int] = {}
        self.notificators: list[Notificator] = []
        self._frozen: dict[str, Any] = {}

    @property
    def captured(self) -> list[Any]:
        """The captured batches, in order of arrival; thread-safe, even while more batches arrive.

        The state only grows, and its items never change. So a read is consistent, and need not be noted for snapshots.
        """
        return list(dict.values(self.by_key.get(CAPTURED, {})))

    @property
    def keys(self) -> int:
        """The number of keys of keyed states, and of items in dicts, lists and sets."""
        in_one_piece = [one for one in self.states.values() if isinstance(one, dict | list | set | deque)]
        return sum(map(len, (*in_one_piece, *self.by_key.values())))

    @property
    def is_restored(self) -> bool:
        return self._saved is not None

    @property
    def is_rescaled(self) -> bool:
        return self._saved is not None and self._saved.is_rescaled

    # ------------------------------------------------------------------ for the operator

    def state(
        self,
        name: str,
        make: Callable[[], State],
        split: Split | None = None,
        merge: Merge | None = None,
        migrate: Migrate = (),
    ) -> State:
        """Return the state with this name, or ``make()`` if it is new.

        Raises:
            GraphError: the name is invalid.
            SnapshotError: saved state cannot be read, migrated or divided among another number of workers.
        """
        self._check_name(name)
        if name in self.by_key:
            raise self._error(f"keeps {name!r} by key: give the other state another name")
        if name not in self.states:
            saved = None if self._saved is None else self._saved.states.pop(name, None)
            self.states[name] = make() if saved is None else self._restored(name, saved, make, split, merge, migrate)
            self._note_format(name, migrate)
        found: State = self.states[name]
        return found

    def keyed(
        self,
        name: str,
        make: Callable[[], Any] | None = None,
        *,
        owners: Owners = owners_of,
        migrate: Migrate = (),
    ) -> dict[Any, Any]:
        """Return the mapping with this name, empty if it is new; raises as `state` does."""
        self._check_name(name)
        if name in self.states:
            raise self._error(f"keeps {name!r} in one piece: give the state by key another name")
        if name not in self.by_key:
            saved = [] if self._saved is None else self._saved.keyed.pop(name, [])
            entries = self._restored_keys(name, saved, owners, migrate)
            if self._is_tracked:
                entries = KeyedState(entries, make)
            elif make is not None:
                entries = defaultdict(make, entries)
            self.by_key[name] = entries
            self._note_format(name, migrate)
        return self.by_key[name]

    def add(self, notificator: Notificator) -> Notificator:
        place = len(self.notificators)
        self.notificators.append(notificator)
        if self._saved is not None and place < len(self._saved.times):
            for data in self._saved.times[place]:
                for token in self._unpickled("a notificator", data):
                    notificator.notify_at(token)
        return notificator

    def check_all_taken(self) -> None:
        """Raise SnapshotError unless the operator has asked for all its saved state."""
        if self._saved is None:
            return
        self._saved.frozen = self._frozen = {}
        left = [*self._saved.states, *self._saved.keyed]
        if left:
            names = ", ".join(map(repr, sorted(left)))
            raise self._error(f"had {names} in the snapshot, and its build function has not asked for that")
        had, has = len(self._saved.times), len(self.notificators)
        if had > has:
            raise self._error(f"had {had} notificators in the snapshot, and its build function has made {has}")

    # ------------------------------------------------------------------ for a snapshot

    def cut(self) -> OperatorCut:
        """Return the state for a snapshot. The operator may go on at once.

        Raises:
            SnapshotError: a value cannot be pickled.
        """
        cut = OperatorCut(formats=self._formats)
        for name, value in self.states.items():
            cut.states[name] = self._pickled(cut, name, value)
        for name, keyed in self.by_key.items():
            assert isinstance(keyed, KeyedState), "snapshots are taken, so changes are tracked"
            cut.keyed[name] = self._cut_keyed(cut, name, keyed)
        for notificator in self.notificators:
            cut.times.append(self._pickled(cut, "a notificator", notificator.tokens))
        return cut

    def write_all_next(self) -> None:
        for keyed in self.by_key.values():
            if isinstance(keyed, KeyedState):
                keyed.write_all_next()

    def _cut_keyed(self, cut: OperatorCut, name: str, keyed: KeyedState[Any, Any]) -> KeyedCut:
        try:
            changes = keyed.cut()
        except Exception as error:
            raise self._unpicklable(name, error) from error
        cut.stamps += changes.stamps
        return changes

    def _pickled(self, cut: OperatorCut, name: str, value: Any) -> bytes:
        try:
            pickled = pickle_state(value, names_frozen=True)
        except Exception as error:
            raise self._unpicklable(name, error) from error
        cut.stamps += [token._stamp for token in pickled.tokens]
        cut.frozen |= pickled.frozen
        return pickled.data

    # ------------------------------------------------------------------ from a snapshot

    def _note_format(self, name: str, migrate: Migrate) -> None:
        if migrate:
            self._formats[name] = len(migrate)

    def _migrated(self, name: str, values: list[Any], migrate: Migrate) -> list[Any]:
        had = 0 if self._saved is None else self._saved.formats.get(name, 0)
        if had > len(migrate):
            raise self._error(
                f"keeps {name!r} in format {had} in the snapshot, and its build function has {len(migrate)} functions "
                "in migrate=. Run the program that has taken the snapshot, or a newer one"
            )
        for number, function in enumerate(migrate[had:], had):
            try:
                values = list(map(function, values))
            except Exception as error:
                raise self._error(
                    f"cannot convert {name!r} from format {number} by function {number} of migrate=: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return values

    def _restored(
        self,
        name: str,
        saved: list[bytes],
        make: Callable[[], Any],
        split: Split | None,
        merge: Merge | None,
        migrate: Migrate,
    ) -> Any:
        assert self._saved is not None, "there is what was saved"
        if not self._saved.is_rescaled:
            return self._migrated(name, [self._unpickled(name, saved[0])], migrate)[0]
        worker, workers = self._saved.worker, self._saved.workers
        tokens: list[TimestampToken] = []
        values = self._migrated(name, [self._unpickled(name, data, tokens) for data in saved], migrate)
        if split is None or merge is None:
            if not tokens and all(value == (empty := make()) for value in values):
                return empty
            raise self._error(
                f"keeps {name!r} in one piece, so it cannot go on with {workers} workers instead of {len(saved)}. Go "
                "on with as many as before, or give context.state() split= and merge=, or keep it by key, "
                "context.keyed_state()"
            )
        parts = [split(value, workers) for value in values]
        if any(len(part) != workers for part in parts):
            raise self._error(
                f"divides {name!r} by a split= that has not returned {workers} parts, one for each worker"
            )
        own = [part[worker] for part in parts if part[worker] is not None]
        restored = reduce(merge, own) if own else make()
        self._discard_others(tokens, restored)
        return restored

    def _restored_keys(self, name: str, saved: list[KeyedChanges], owners: Owners, migrate: Migrate) -> dict[Any, Any]:
        tokens: list[TimestampToken] = []
        found: dict[Any, Any] = {}
        for changes in saved:
            entries = entries_of(changes, lambda data: self._unpickled(name, data, tokens))
            if self._saved is not None and self._saved.is_rescaled:
                is_own = [owner == self._saved.worker for owner in owners(list(entries), self._saved.workers)]
                entries = dict(compress(entries.items(), is_own))
            if migrate or (self._saved is not None and self._saved.formats):
                entries = dict(zip(entries, self._migrated(name, list(entries.values()), migrate), strict=True))
            found.update(entries)
        self._discard_others(tokens, found)
        return found

    @staticmethod
    def _discard_others(tokens: list[TimestampToken], restored: Any) -> None:
        kept = {id(token) for token in pickle_state(restored).tokens} if tokens else set()
        for token in tokens:
            if token.is_live and id(token) not in kept:
                token.discard()

    def _unpickled(self, name: str, data: bytes, tokens: list[TimestampToken] | None = None) -> Any:
        made = [] if tokens is None else tokens

        def make(place: TokenPlace) -> TimestampToken:
            made.append(self._make_token(place))
            return made[-1]

        try:
            return unpickle_state(data, make, self._frozen_value)
        except Exception as error:
            remedy = "Let the program have the classes that were saved, and give migrate= what converts them"
            text = f"cannot read {name!r} from the snapshot: {type(error).__name__}: {error}. {remedy}"
            raise self._error(text) from error

    def _frozen_value(self, name: str) -> Any:
        if name not in self._frozen:
            assert self._saved is not None
            self._frozen[name] = pickle.loads(self._saved.frozen[name])  # noqa: S301 - from the snapshots of this job
        return self._frozen[name]

    def _unpicklable(self, name: str, error: Exception) -> SnapshotError:
        return self._error(f"keeps something in {name!r} that cannot be pickled: {type(error).__name__}: {error}")

    def _check_name(self, name: object) -> None:
        check_name("a state", name, lambda reason: GraphError(f"operator {self.operator!r}: {reason}"))

    def _error(self, what: str) -> SnapshotError:
        return SnapshotError(f"operator {self.operator!r} {what}")
