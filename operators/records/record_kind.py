"""The kind of records that an input was promised, and the check of each batch against it.

A type is compared with the first record of a batch: what is wrong is mostly wrong throughout, and looking at all of
them would cost more than many an operator. A schema is compared with that of the batch, which holds for all its rows.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, get_origin

from tidewheel.operators.tables.columns import check_schema, is_schema
from tidewheel.progress import GraphError
from tidewheel.pubsub.catalog.topic_schema import classes_of
from tidewheel.transport.batches import Batch, records, take_slice

Check: TypeAlias = Callable[[Batch], Batch]
"""Returns a batch, which is not empty; raises TypeError if its records are of another kind."""


class Schema(Protocol):
    """A `pyarrow.Schema`, as far as it matters here."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def field(self, i: Any, /) -> Any:
        """Return a column's name, type, and whether it may have nulls."""


def check_for(name: str, kind: object) -> Check:
    """Return the check for records of a type, or for batches of a `pyarrow.Schema`, of the input ``name``.

    >>> check = check_for("numbers", int)
    >>> check([1, 2])
    [1, 2]
    >>> check(["1"])
    Traceback (most recent call last):
        ...
    TypeError: input 'numbers' has records of int, not str: '1'

    Raises:
        GraphError: ``kind`` is neither.
    """
    if is_schema(kind):
        return lambda batch: check_schema(batch, kind)
    try:
        classes = classes_of(kind)
    except TypeError:
        raise GraphError(
            f"input {name!r}: what its records are is said by a class, such as int or tuple[str, int], or by a "
            f"pyarrow.Schema, not by {kind!r}"
        ) from None
    return lambda batch: _check_first(name, batch, kind, classes)


def _check_first(name: str, batch: Batch, kind: object, classes: tuple[type, ...]) -> Batch:
    (record,) = records(take_slice(batch, 0, 1))
    if isinstance(record, classes):
        return batch
    shown = kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)
    raise TypeError(f"input {name!r} has records of {shown}, not {type(record).__qualname__}: {record!r:.200}")
