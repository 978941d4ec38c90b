"""The classes of the main program: each is one class in a process, however its instances arrive.

Other processes cannot import the main program, so its classes are pickled by value. A class that is unpickled twice
would become two classes, and ``isinstance`` and ``==`` would fail. So cloudpickle and Ray's copy of it share a tracker,
which identifies a class of the main program by its definition.

Which class a definition stands for depends on the process:

- In a process whose main program has a class of that name: that class, if it can read the fields. If the program has
  redefined the class with other code, as in a notebook, instances of the older definition raise an error.
- In a worker: the class that arrived first, under the same conditions. The classes of its operators arrive first of
  all.
- In any other process, such as a publisher: a class with the same code or matching fields, else a new class.

Other classes that are pickled by value, such as those inside functions, get random ids in the same tracker.
"""

import io
import pickle
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeGuard
from uuid import uuid4

import cloudpickle

from tidewheel.host.class_definition import (
    PROGRAM,
    ClassDefinition,
    can_read,
    class_of_program,
    definition_of,
    parsed,
)
from tidewheel.host.cloudpickle_internals import track_by
from tidewheel.progress import TidewheelError

_IS_CHECKED: ContextVar[bool] = ContextVar("_IS_CHECKED", default=False)

PROTOCOL = 5
"""Protocol 5 of pickle hands over large buffers without a copy (PEP 574)."""


class ClassChanged(TidewheelError):  # noqa: N818 - named for what it says
    """A pickle and this process have different definitions of a class of the main program."""


class ProgramClasses:
    """The tracker of one process, for the classes that the process pickles by value or has received by value."""

    def __init__(self) -> None:
        self.is_worker = False
        self._ids: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._by_id: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._made_here: weakref.WeakSet[Any] = weakref.WeakSet()
        self._complete: weakref.WeakSet[Any] = weakref.WeakSet()
        self._adopted: weakref.WeakSet[Any] = weakref.WeakSet()
        self._defined: dict[str, dict[str, None]] = {}
        self._pickles: weakref.WeakKeyDictionary[type, bytes] = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()

    def id_of(self, kind: Any) -> str:
        with self._lock:
            found = self._ids.get(kind)
            if found is None:
                definition = self._defined_here(kind)
                found = self._ids[kind] = uuid4().hex if definition is None else definition.text
                self._by_id[found] = kind
                self._made_here.add(kind)
            return found

    def _defined_here(self, kind: Any) -> ClassDefinition | None:
        if not _is_of_program(kind) or class_of_program(kind.__qualname__) is not kind:
            return None  # such as the class that a dataclass with slots replaces but still refers to
        defined = self._defined.setdefault(kind.__qualname__, {})
        definition = definition_of(kind, defined)
        defined[definition.code] = None
        return definition

    def tracked(self, id_: str, came: Any) -> Any:
        """Return this process's class with an id, or ``came``, the received class, if the process has none.

        Only workers and `checked` blocks refuse another definition: elsewhere Ray or cloudpickle may run for the
        program.

        Raises:
            ClassChanged: this process has another definition of the class.
        """
        definition = parsed(id_)
        with self._lock:
            try:
                found = None if definition is None else self.of(definition)
            except ClassChanged:
                if self.is_worker or _IS_CHECKED.get():
                    raise
                found = None
            found = self._by_id.get(id_) if found is None else found
            if found is None:
                found = self._by_id[id_] = came
            self._ids.setdefault(found, id_)
            return found

    def of(self, definition: ClassDefinition) -> type | None:
        """Return this process's class for a definition; None if it has none.

        Raises:
            ClassChanged: this process has another definition of the class.
        """
        with self._lock:
            own = class_of_program(definition.name)
            if own is None:
                found: type | None = self._by_id.get(definition.text)
                return self._fitting(definition, self._named(definition.name)) if found is None else found
            return self._fitting(definition, {own: parsed(self.id_of(own)) or definition_of(own)}, is_own=True)

    def _named(self, name: str) -> dict[type, ClassDefinition]:
        known = {kind: parsed(self._ids[kind]) for kind in self._with_name(name)}
        found = {kind: definition for kind, definition in known.items() if definition is not None}
        return found or {kind: definition_of(kind) for kind in known if kind in self._adopted}

    def _with_name(self, name: str) -> list[type]:
        return [kind for kind in list(self._ids) if _is_of_program(kind) and kind.__qualname__ == name]

    def _fitting(
        self, definition: ClassDefinition, known: dict[type, ClassDefinition], *, is_own: bool = False
    ) -> type | None:
        for kind, here in known.items():
            if here.code == definition.code:
                return kind
        for kind, here in known.items():
            is_again = definition.is_replaced_by(here) or here.is_replaced_by(definition)
            if not is_again and can_read(kind, definition.fields):
                return kind
            if is_own or self.is_worker:
                raise _changed(definition, here, is_again=is_again)
        return None

    def with_name(self, name: str) -> type | None:
        """Return the main program's class of a qualified name; None if there is none, or several."""
        with self._lock:
            known = self._with_name(name)
            return known[0] if len(known) == 1 else None

    def pickled(self, kind: type) -> bytes:
        """Return a class pickled by value; the bytes are kept until `pickle_anew`."""
        found = self._pickles.get(kind)
        if found is None:
            found = self._pickles[kind] = cloudpickle.dumps(kind, PROTOCOL)
        return found

    def pickle_anew(self) -> None:
        """Let `pickled` pickle each class again, since the program may have changed globals that its methods use."""
        self._pickles.clear()

    def is_filled(self, kind: Any) -> bool:
        """Tell whether a class has all its attributes. A class that arrives by value has none at first."""
        return kind in self._made_here or kind in self._complete

    def fill(self, kind: Any, state: Any, set_state: Callable[[Any, Any], Any]) -> Any:
        if kind not in self._made_here and not (self.is_worker and kind in self._complete):
            set_state(kind, state)
            self._complete.add(kind)
        return kind

    def adopt(self, ids: Iterable[tuple[Any, str]]) -> None:
        with self._lock:
            for kind, id_ in ids:
                self._by_id.setdefault(id_, kind)
                if parsed(id_) is not None or self._defined_here(kind) is None:
                    self._ids.setdefault(kind, id_)
                    self._complete.add(kind)
                    self._adopted.add(kind)


CLASSES = ProgramClasses()
"""The classes of this process."""


@contextmanager
def checked() -> Iterator[None]:
    """Raise ClassChanged after the block if Ray has brought a record of a class that the program has redefined."""
    before = _IS_CHECKED.set(True)
    try:
        yield
    finally:
        _IS_CHECKED.reset(before)


def share_tracker() -> None:
    """Let cloudpickle, and Ray if it is imported, track classes in `CLASSES`; idempotent."""
    track_by(CLASSES)


class ByValuePickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no types
    """A pickler that writes a class of the main program as its definition and the way to make it."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) and value.__module__ == PROGRAM:
            id_ = CLASSES.id_of(value)
            if parsed(id_) is not None:
                return _class_with, (id_, CLASSES.pickled(value))
        return super().reducer_override(value)


def dump_by_value(value: Any, protocol: int, buffer_callback: Any = None) -> bytes:
    """Pickle ``value``; functions and classes that other processes cannot import are pickled by value."""
    file = io.BytesIO()
    ByValuePickler(file, protocol, buffer_callback).dump(value)
    return file.getvalue()


def _class_with(id_: str, by_value: bytes) -> Any:
    definition = parsed(id_)
    assert definition is not None, "others are not pickled so"
    found = CLASSES.of(definition)
    if found is None or not CLASSES.is_filled(found):
        found = pickle.loads(by_value)  # noqa: S301 - a part of a pickle that is unpickled anyway
    return found


def _is_of_program(kind: Any) -> TypeGuard[type]:
    return isinstance(kind, type) and kind.__module__ == PROGRAM


def _changed(came: ClassDefinition, here: ClassDefinition, *, is_again: bool) -> ClassChanged:
    if is_again:
        return ClassChanged(
            f"the program has defined class {came.name!r} again, and a running job or what it has left is of the class "
            "as it was before: stop that job and run its dataflow again, with records of the new class"
        )
    before, now = (", ".join(one.fields or ()) for one in (came, here))
    return ClassChanged(
        f"a record of class {came.name!r} of a main program was pickled with the fields ({before}), and the class of "
        f"that name here has ({now}). Only append fields that have defaults, or give the class a __setstate__ that "
        "reads old records. If these are two classes, rename one, or move it to a module"
    )


share_tracker()
