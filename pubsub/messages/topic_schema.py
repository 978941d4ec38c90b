"""The schema of a topic's records, and its comparison with batches and other schemas.

The publisher checks each batch. A subscriber checks batches only if the topic declares no schema. The catalog and
subscribers can read a `DeclaredSchema` without the user's classes and without Arrow.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import repr as shortened
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

from tidewheel.batches.batches import is_arrow, is_schema, shown, type_of_values
from tidewheel.pubsub.errors import DeliveryError, SchemaMismatch

_ALSO: dict[Any, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}
"""The classes accepted for a type: by PEP 484, an int is accepted for a float."""


@dataclass(frozen=True, slots=True)
class DeclaredSchema:
    """The declared schema of a topic, in values that every process can read.

    Args:
        text: the schema for people, such as ``int`` or ``(word: string, n: int64)``.
        arrow: an encoded Arrow schema; None if the schema is a Python type.
        classes: for each permitted class, its name and the names of its base classes.
    """

    text: str
    arrow: bytes | None = None
    classes: tuple[tuple[str, ...], ...] = ()


class TopicSchema(ABC):
    """The schema of a topic's records, made by `topic_schema`; ``declared`` is its form for other processes."""

    def __init__(self, declared: DeclaredSchema) -> None:
        self.declared = declared

    def check(self, topic: str, partition: int, time: Any, batch: Any) -> None:
        """Raise SchemaMismatch if a batch does not have this schema; an empty list has every schema."""
        came = self.mismatch(batch)
        if came is not None:
            raise SchemaMismatch(
                f"topic {topic!r}, partition {partition}: at time {time!r} came {came}, where {self.declared.text} is "
                "expected",
                topic=topic,
                partition=partition,
            )

    @abstractmethod
    def mismatch(self, batch: Any) -> str | None:
        """Describe how a batch differs from this schema; return None if it does not."""

    @abstractmethod
    def takes(self, declared: DeclaredSchema) -> bool:
        """Tell whether all records with a declared schema also have this schema."""


def topic_schema(said: Any) -> TopicSchema:
    """Return the schema for a `pyarrow.Schema`, or for a Python type of records, such as ``int`` or a dataclass.

    >>> topic_schema(int).mismatch([1, "two"])
    "str: 'two'"
    >>> topic_schema(int | str).takes(topic_schema(bool).declared)
    True

    Raises:
        DeliveryError: the argument is neither a schema nor a type.
    """
    if is_schema(said):
        return ArrowSchema(said)
    try:
        return RecordSchema(name_of(said), classes_of(said))
    except TypeError:
        raise DeliveryError(
            f"schema is a class of records, such as int or tuple[str, int], or a pyarrow.Schema, not {said!r}"
        ) from None


class ArrowSchema(TopicSchema):
    """The schema of Arrow tables: the names, types and order of their columns.

    Ignores metadata, nullability and the width of dictionary indices.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema.remove_metadata()
        self._columns = _columns(schema)
        super().__init__(DeclaredSchema(shown(schema), arrow=self._schema.serialize().to_pybytes()))

    def mismatch(self, batch: Any) -> str | None:
        if not is_arrow(batch):
            return f"a {type(batch).__qualname__}"
        if self._schema.equals(batch.schema) or self._columns == _columns(batch.schema):
            return None
        return f"a table of {shown(batch.schema)}"

    def takes(self, declared: DeclaredSchema) -> bool:
        if declared.arrow is None:
            return False
        import pyarrow as pa

        return self._columns == _columns(pa.ipc.read_schema(pa.py_buffer(declared.arrow)))


class RecordSchema(TopicSchema):
    """The schema of records that are instances of some classes; rows of Arrow are dicts.

    Contents are not checked. Classes are compared by name, since two scripts may define the same class.
    """

    def __init__(self, text: str, classes: tuple[type, ...]) -> None:
        super().__init__(DeclaredSchema(text, classes=tuple(map(_lineage, classes))))
        self._classes = classes
        self._names = {_full_name(one) for one in classes}
        self._fitting: set[type] = set()

    def mismatch(self, batch: Any) -> str | None:
        """Describe the first record of another class; O(records), about 20 ns each."""
        kinds = _kinds(batch)
        if kinds <= self._fitting:
            return None
        wrong = {kind for kind in kinds if not self._fits(kind)}
        if not wrong:
            self._fitting |= kinds
            return None
        if is_arrow(batch):
            return "a table, whose rows are dicts"
        records = batch.tolist() if hasattr(batch, "tolist") else batch
        record = next((record for record in records if type(record) in wrong), records[0])
        return f"{name_of(type(record))}: {shortened(record)}"

    def takes(self, declared: DeclaredSchema) -> bool:
        """Tell whether each declared class is one of these classes, or inherits from one."""
        if declared.arrow is not None:
            return self._fits(dict)
        return all(self._takes(lineage) for lineage in declared.classes)

    def _takes(self, lineage: tuple[str, ...]) -> bool:
        if not self._names.isdisjoint(lineage):
            return True
        # An abstract class such as collections.abc.Mapping is not in the lineage of a dict.
        known = _loaded(lineage[0])
        return known is not None and issubclass(known, self._classes)

    def _fits(self, kind: type) -> bool:
        return issubclass(kind, self._classes) or not self._names.isdisjoint(_lineage(kind))


def _columns(schema: Any) -> list[tuple[str, Any]]:
    return list(zip(schema.names, map(type_of_values, schema.types), strict=True))


def _kinds(batch: Any) -> set[type]:
    if is_arrow(batch):
        return {dict}
    if hasattr(batch, "tolist"):
        return _kinds_of_array(batch)
    return _distinct(batch)


def _kinds_of_array(array: Any) -> set[type]:
    if array.ndim > 1:
        return {list}
    if array.dtype.kind == "O":
        return _distinct(array.tolist())
    import numpy as np

    # All elements have the type of a zero element; an existing element may be without value, as NaT is.
    return {type(np.zeros(1, array.dtype).tolist()[0])}


def _distinct(records: Iterable[Any]) -> set[type]:
    kinds = list(map(type, records))
    # Most lists have one type, and counting it is faster than making a set.
    return {kinds[0]} if kinds and kinds.count(kinds[0]) == len(kinds) else set(kinds)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _lineage(kind: type) -> tuple[str, ...]:
    return tuple(map(_full_name, kind.__mro__))


def _loaded(full_name: str) -> type | None:
    module, _, name = full_name.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None


def classes_of(kind: Any) -> tuple[type, ...]:
    """Return the classes of a type, for `isinstance`: a bool is an int.

    For ``tuple[str, int]`` the elements are not checked.

    >>> classes_of(int | tuple[str, int]), classes_of(float)
    ((<class 'int'>, <class 'tuple'>), (<class 'float'>, <class 'int'>))

    Raises:
        TypeError: ``kind`` is not a type.
    """
    origin = get_origin(kind)
    if kind is Any or getattr(kind, "_is_protocol", False):
        return (object,)
    if kind in _ALSO:
        return _ALSO[kind]
    if origin is Union or origin is UnionType:
        return tuple(found for part in get_args(kind) for found in classes_of(part))
    if origin is Literal:
        return tuple({type(value) for value in get_args(kind)})
    if origin is Annotated:
        return classes_of(get_args(kind)[0])
    if is_typeddict(kind):
        return (dict,)
    plain = getattr(kind, "__supertype__", origin or kind)
    if plain is not kind and not isinstance(plain, type):
        return classes_of(plain)
    if not isinstance(plain, type):
        raise TypeError(f"{kind!r} is no type")
    return (plain,)


def name_of(kind: Any) -> str:
    """Return a type's name in Python, such as ``int``, ``tuple[str, int]`` or ``shop.orders.Order``.

    >>> name_of(int), name_of(tuple[str, int])
    ('int', 'tuple[str, int]')
    """
    if not isinstance(kind, type) or get_origin(kind) is not None:
        return str(kind).removeprefix("typing.")
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
