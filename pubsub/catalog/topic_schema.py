"""What the records of a topic are said to be, and whether a batch, or another topic, agrees with that.

A publisher checks each batch, so that a subscriber need not, unless the topic says nothing. What a topic says goes to
the catalog and to subscribers as a `DeclaredSchema`, which needs neither the user's classes nor Arrow where it is read.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any

from tidewheel.pubsub.catalog.record_classes import classes_of, name_of
from tidewheel.pubsub.errors import DeliveryError, SchemaMismatch
from tidewheel.transport.batches import is_arrow


@dataclass(frozen=True, slots=True)
class DeclaredSchema:
    """What a topic is said to have, in values that every process can read.

    Args:
        text: for people, such as ``int`` or ``(word: string, n: int64)``.
        arrow: a schema of Arrow, encoded; None where records are of a type.
        classes: for each class that a record may be of, the names of it and of all that it inherits from.
    """

    text: str
    arrow: bytes | None = None
    classes: tuple[tuple[str, ...], ...] = ()


class TopicSchema(ABC):
    """What the records of a topic are; `topic_schema` makes one."""

    def check(self, topic: str, partition: int, time: Any, batch: Any) -> None:
        """Raise SchemaMismatch, which names all that, if a batch is not what this says. An empty list always is."""
        came = self.mismatch(batch)
        if came is not None:
            raise SchemaMismatch(
                f"topic {topic!r}, partition {partition}: at time {time!r} came {came}, where {self.describe()} is "
                "expected",
                topic=topic,
                partition=partition,
            )

    @abstractmethod
    def describe(self) -> str:
        """Return for people what is expected."""

    @abstractmethod
    def mismatch(self, batch: Any) -> str | None:
        """Return what came if that is not what is expected, else None."""

    @abstractmethod
    def declared(self) -> DeclaredSchema:
        """Return what others are told."""

    @abstractmethod
    def takes(self, declared: DeclaredSchema) -> bool:
        """Tell whether whatever is declared so is what is expected here."""


def topic_schema(said: Any) -> TopicSchema:
    """Return what is meant by a `pyarrow.Schema`, or by a Python type of records, such as ``int`` or a dataclass.

    >>> topic_schema(int).mismatch([1, "two"])
    "str: 'two'"
    >>> topic_schema(int | str).takes(topic_schema(bool).declared())
    True

    Raises:
        DeliveryError: it is neither.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(said, getattr(pyarrow, "Schema", ())):
        return ArrowSchema(said)
    try:
        return RecordSchema(name_of(said), classes_of(said))
    except TypeError:
        raise DeliveryError(
            f"schema is a class of records, such as int or tuple[str, int], or a pyarrow.Schema, not {said!r}"
        ) from None


class ArrowSchema(TopicSchema):
    """Batches are Arrow tables of some columns, by name, type and order.

    Metadata do not matter, and neither does which columns may have nulls, nor how wide the indices of dictionaries are.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema.remove_metadata()
        self._columns = _columns(schema)

    def describe(self) -> str:
        """Return the columns with their types."""
        return f"({', '.join(f'{field.name}: {field.type}' for field in self._schema)})"

    def mismatch(self, batch: Any) -> str | None:
        """Return what came unless it is a table of these columns. Complexity: O(columns)."""
        if not is_arrow(batch):
            return f"a {type(batch).__qualname__}"
        if self._schema.equals(batch.schema) or self._columns == _columns(batch.schema):
            return None
        return f"a table of {ArrowSchema(batch.schema).describe()}"

    def declared(self) -> DeclaredSchema:
        """Return the schema as bytes."""
        return DeclaredSchema(self.describe(), arrow=self._schema.serialize().to_pybytes())

    def takes(self, declared: DeclaredSchema) -> bool:
        """Tell whether it is the same schema."""
        if declared.arrow is None:
            return False
        import pyarrow as pa

        return self._columns == _columns(pa.ipc.read_schema(pa.py_buffer(declared.arrow)))


class RecordSchema(TopicSchema):
    """Records are instances of some classes, or of what inherits from them; rows of Arrow are dicts.

    What is in them is not looked at. A class of a script is another one in each process, so it goes by its name.
    """

    def __init__(self, text: str, classes: tuple[type, ...]) -> None:
        self._text = text
        self._classes = classes
        self._names = {_full_name(one) for one in classes}
        self._fitting: set[type] = set()

    def describe(self) -> str:
        """Return the type as people write it."""
        return self._text

    def mismatch(self, batch: Any) -> str | None:
        """Return the first record that is of no such class. Complexity: O(records), about 20 ns each."""
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

    def declared(self) -> DeclaredSchema:
        """Return the names of the classes."""
        return DeclaredSchema(self._text, classes=tuple(_lineage(one) for one in self._classes))

    def takes(self, declared: DeclaredSchema) -> bool:
        """Tell whether each class that is declared is one of these, or inherits from one."""
        if declared.arrow is not None:
            return self._fits(dict)
        return all(self._takes(lineage) for lineage in declared.classes)

    def _takes(self, lineage: tuple[str, ...]) -> bool:
        if not self._names.isdisjoint(lineage):
            return True
        # An abstract class such as collections.abc.Mapping is not among what a dict inherits from.
        known = _loaded(lineage[0])
        return known is not None and issubclass(known, self._classes)

    def _fits(self, kind: type) -> bool:
        return issubclass(kind, self._classes) or not self._names.isdisjoint(_lineage(kind))


def _columns(schema: Any) -> list[tuple[str, Any]]:
    import pyarrow as pa

    def without_width(kind: Any) -> Any:
        return pa.dictionary(pa.int32(), kind.value_type, kind.ordered) if pa.types.is_dictionary(kind) else kind

    return [(name, without_width(kind)) for name, kind in zip(schema.names, schema.types, strict=True)]


def _kinds(batch: Any) -> set[type]:
    """Return of which classes the records of a batch are, as a subscriber gets them."""
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

    # All elements have one type. It is that of a zero, since those that are there may stand for nothing, as NaT does.
    return {type(np.zeros(1, array.dtype).tolist()[0])}


def _distinct(records: Iterable[Any]) -> set[type]:
    kinds = list(map(type, records))
    # Mostly there is one, and to count that is faster than to make a set.
    return {kinds[0]} if kinds and kinds.count(kinds[0]) == len(kinds) else set(kinds)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _lineage(kind: type) -> tuple[str, ...]:
    return tuple(map(_full_name, kind.__mro__))


def _loaded(full_name: str) -> type | None:
    """Return a class by its name if its module is loaded here."""
    module, _, name = full_name.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None
