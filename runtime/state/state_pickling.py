"""The pickled form of operators' state, which may contain timestamp tokens.

A token is pickled as its place: the output of its operator, the time and the substream. Unpickling makes a new token at
that place.

A restored program defines its classes anew. `tidewheel.host.program_classes` makes saved values instances of the new
classes; otherwise saved keys would not equal the keys of new records.

A *frozen* value never changes, such as a batch of an arrangement. Pickled state contains only the value's name. The
first snapshot that needs the value writes it to a file, and later snapshots refer to that file.
"""

import copyreg
import io
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

import cloudpickle

from tidewheel.batches.batches import pack, unpack
from tidewheel.host.program_classes import CLASSES, PROTOCOL, ByValuePickler
from tidewheel.progress import Time
from tidewheel.runtime.messages.labels import Label
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.transport.frames import goes_by_value


class TokenPlace(NamedTuple):
    """The output and the time at which a token can send.

    Attributes:
        label: the token's substream; None if it has none.
    """

    output: int
    time: Time
    label: Label | None
    is_live: bool = True


Stamp: TypeAlias = tuple[int, Time]
"""The place of a token as its ledger counts it: (number of the output's location, time)."""

MakeToken: TypeAlias = Callable[[TokenPlace], TimestampToken]
"""Called with a place; makes a token there."""

_KNOWN: list[type] = []
"""The classes of the program that deployed a job to this process. Unpickled values get these classes."""

_MAKE_TOKEN: ContextVar[MakeToken] = ContextVar("_MAKE_TOKEN")
_FROZEN: ContextVar[Callable[[str], Any]] = ContextVar("_FROZEN")
_FROZEN_KINDS: set[type] = set()
_FROZEN_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


class Pickled(NamedTuple):
    """A pickled value, its live tokens, and its frozen values by name."""

    data: bytes
    tokens: tuple[TimestampToken, ...]
    frozen: dict[str, Any]


def declare_frozen(*kinds: type) -> None:
    """Declare classes as frozen: their values never change, contain no tokens, and allow weak references."""
    _FROZEN_KINDS.update(kinds)


def pickle_state(value: Any, *, names_frozen: bool = False) -> Pickled:
    """Return a value pickled, with its live tokens.

    Raises:
        TypeError, AttributeError, PicklingError: a part of ``value`` cannot be pickled.
    """
    kinds = frozenset(_FROZEN_KINDS if names_frozen else ())
    try:
        pickled = _pickled(pickle.Pickler, copyreg.dispatch_table, value, kinds)
        if not goes_by_value(pickled.data):
            return pickled
    except Exception:  # noqa: BLE001, S110 - cloudpickle may be able to do it, or says why not
        pass
    return _pickled(_StatePickler, {}, value, kinds)


def unpickle_state(
    data: bytes | memoryview, make_token: MakeToken, frozen: Callable[[str], Any] = lambda name: None
) -> Any:
    before = _MAKE_TOKEN.set(make_token), _FROZEN.set(frozen)
    try:
        return pickle.loads(data)  # noqa: S301 - from the snapshots of this job
    finally:
        _MAKE_TOKEN.reset(before[0])
        _FROZEN.reset(before[1])


def classes_of_main() -> bytes:
    found: dict[str, type] = {}
    for name, value in list(vars(sys.modules["__main__"]).items()):
        if isinstance(value, type) and value.__module__ == "__main__":
            with suppress(Exception):  # a class that cannot be pickled is in no snapshot
                cloudpickle.dumps(value, PROTOCOL)
                found[name] = value
    data: bytes = cloudpickle.dumps(found, PROTOCOL)
    return data


def know_classes(data: bytes) -> None:
    """Let later unpickling use the classes of the program in ``data``."""
    _KNOWN.extend(pickle.loads(data).values())  # noqa: S301 - from the driver of this job


class _StatePickler(ByValuePickler):
    """A pickler with its own ``dispatch_table``, also for classes that pickled functions refer to."""

    dispatch_table: dict[Any, Any]

    def reducer_override(self, value: Any) -> Any:
        reduce = self.dispatch_table.get(type(value))
        if reduce is not None:
            return reduce(value)
        if isinstance(value, type) and value.__module__ == "__main__" and "<locals>" in value.__qualname__:
            return _class_of_function, (value.__qualname__, cloudpickle.dumps(value, PROTOCOL))
        return super().reducer_override(value)


def _pickled(kind: Any, dispatch_table: Mapping[type, Any], value: Any, frozen_kinds: frozenset[type]) -> Pickled:
    tokens: dict[int, TimestampToken] = {}
    frozen: dict[str, Any] = {}

    def reduce_token(token: TimestampToken) -> tuple[Any, ...]:
        if token.is_live:
            tokens[id(token)] = token
        return _token_at, (token._output, token.time, token.label, token.is_live)

    def reduce_frozen(one: Any) -> tuple[Any, ...]:
        name = _FROZEN_NAMES.get(one)
        if name is None:
            name = _FROZEN_NAMES[one] = uuid4().hex
        frozen[name] = one
        return _frozen_at, (name,)

    own: dict[type, Callable[[Any], Any]] = {TimestampToken: reduce_token, **dict.fromkeys(frozen_kinds, reduce_frozen)}
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and hasattr(pyarrow, "RecordBatch") and hasattr(pyarrow, "Table"):
        # While another thread is still importing pyarrow, there are no such values.
        own |= {pyarrow.Table: _reduce_batch, pyarrow.RecordBatch: _reduce_batch}
    file = io.BytesIO()
    pickler = kind(file, PROTOCOL)
    pickler.dispatch_table = {**dispatch_table, **own}
    pickler.dump(value)
    return Pickled(file.getvalue(), tuple(tokens.values()), frozen)


def _class_of_function(name: str, by_value: bytes) -> Any:
    known = CLASSES.with_name(name)
    return pickle.loads(by_value) if known is None else known  # noqa: S301 - from the snapshots of this job


def _token_at(*place: Any) -> TimestampToken:
    return _MAKE_TOKEN.get()(TokenPlace(*place))


def _frozen_at(name: str) -> Any:
    return _FROZEN.get()(name)


def _reduce_batch(batch: Any) -> Any:
    packed = pack(batch)
    return batch.__reduce__() if packed is batch else (unpack, (packed,))
