"""What kind of records an input was promised, and the check of each batch against it.

A type is compared with the first record of a batch: what is wrong is mostly wrong throughout, and looking at all of
them would cost more than many an operator. A schema is compared with that of the batch, which holds for all its rows.
"""

from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Literal, Protocol, TypeAlias, Union, get_args, get_origin, is_typeddict

from tidewheel.operators.tables.columns import check_schema, is_schema
from tidewheel.progress import GraphError
from tidewheel.runtime.batches import Batch, records, take_slice

Check: TypeAlias = Callable[[Batch], Batch]
"""Returns a batch, which is not empty; raises TypeError if its records are of another kind."""

_ALSO: dict[Any, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}
"""What may stand for what: PEP 484 has an int be a float."""


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
        classes = _classes(kind)
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


def _classes(kind: Any) -> tuple[type, ...]:
    """Return the classes whose instances are of a type. Raises TypeError if it is no type."""
    origin = get_origin(kind)
    if kind is Any or getattr(kind, "_is_protocol", False):
        return (object,)
    if kind in _ALSO:
        return _ALSO[kind]
    if origin is Union or origin is UnionType:
        return tuple(found for part in get_args(kind) for found in _classes(part))
    if origin is Literal:
        return tuple({type(value) for value in get_args(kind)})
    if origin is Annotated:
        return _classes(get_args(kind)[0])
    if is_typeddict(kind):
        return (dict,)
    plain = getattr(kind, "__supertype__", origin or kind)
    if plain is not kind and not isinstance(plain, type):
        return _classes(plain)
    if not isinstance(plain, type):
        raise TypeError
    return (plain,)
