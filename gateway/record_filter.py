"""The conditions on records that gateway clients and the command line use. They only compare values, and run no code.

A condition is ``FIELD OPERATOR VALUE``, such as ``n>1`` or ``city==Oslo``. The receiver of the text parses it, and
publishers compare plain values.

- The field is a key of a dict, a column of a table, a field of a dataclass, struct or named tuple, or an index, from 0,
  in a tuple. ``record`` is the whole record. A name in JSON quotes may contain anything.
- The operator is one of ``== != < <= > >=``.
- The value is JSON (a number, a string in quotes, ``true``, ``false`` or ``null``), or else a plain string.

Field and value must be of the same kind: ``zip==1500`` is an error for a string field; write ``zip=="1500"``. `None`
differs from every value, and is neither less nor greater.
"""

import dataclasses
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from reprlib import repr as shortened
from typing import Any, TypeAlias

import msgspec

from tidewheel.gateway.errors import BadRequest
from tidewheel.gateway.json_form import plain

Value: TypeAlias = str | float | bool | None

LONGEST = 1_000
"""The largest length of a condition, in characters."""

MOST = 20
"""The largest number of conditions."""

_RECORD = "record"
_BLANKS = re.compile(r"\s*")
_FIELD = re.compile(r'"(?:[^"\\]|\\.)*"|[^=!<>"]+', re.DOTALL)
_OPERATOR = re.compile("==|!=|<=|>=|<|>")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_HOW = 'Write it as FIELD==VALUE, or with != < <= > >=, such as n>1, city==Oslo or "zip code"=="0150"'


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """One condition.

    Args:
        field: the name of the field; None for the record itself.
        operator: one of ``== != < <= > >=``.
        value: the value to compare with.

    >>> Comparison.parse("n > 1")
    Comparison(field='n', operator='>', value=1)
    >>> Comparison.parse("n > 1").holds({"n": 2})
    True
    """

    field: str | None
    operator: str
    value: Value

    @classmethod
    def parse(cls, text: str) -> "Comparison":
        """Return the condition in a text; raise BadRequest if the text is not a condition."""
        if len(text) > LONGEST:
            raise BadRequest(f"where= has {len(text):,} characters, and may have {LONGEST:,}")
        begin = _after(_BLANKS, text, 0)
        end = _after(_FIELD, text, begin)
        if end == begin:
            quoted = text.startswith('"', begin)
            raise _error(text, begin, "the name of a field has no end" if quoted else "the name of a field is missing")
        compares = _after(_BLANKS, text, end)
        behind = _after(_OPERATOR, text, compares)
        if behind == compares:
            raise _error(text, compares, "one of == != < <= > >= is missing")
        field, operator = _field(text, begin, end), text[compares:behind]
        value = _value(text, _after(_BLANKS, text, behind))
        if value is None and operator not in {"==", "!="}:
            raise _error(text, compares, "nothing is less or greater than null: compare with == or !=")
        return cls(field, operator, value)

    def holds(self, record: Any) -> bool:
        """Tell whether a record meets the condition.

        Raises:
            ValueError: the record has no such field.
            TypeError: the field cannot be compared with the value.
        """
        field, value = self.field, self.value
        if field is None:
            found = record
        elif type(record) is dict and field in record:  # the usual case; publishers do this for every record
            found = record[field]
        else:
            found = _field_of(record, field)
        compare = _OPERATORS[self.operator]
        if type(found) is type(value) and found is not None:
            return bool(compare(found, value))
        found = plain(found)
        if found is None or value is None:
            return (found is value) is (self.operator == "==") and self.operator in {"==", "!="}
        return bool(compare(*_comparable(found, value, field)))


@dataclasses.dataclass(frozen=True, slots=True)
class RecordFilter:
    """A filter for ``subscribe(where=...)`` by several conditions, which must all hold.

    >>> wanted = RecordFilter.parse(["n>1", "city==Oslo"])
    >>> wanted({"n": 2, "city": "Oslo"}), wanted({"n": 2, "city": "Rome"})
    (True, False)
    """

    comparisons: tuple[Comparison, ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "RecordFilter | None":
        """Return the filter of these conditions; None if there are none.

        Raises:
            BadRequest: a text is not a condition, or there are too many.
        """
        comparisons = tuple(Comparison.parse(text) for text in texts)
        if len(comparisons) > MOST:
            raise BadRequest(f"where= is there {len(comparisons)} times, and may be {MOST} times")
        return cls(comparisons) if comparisons else None

    def __call__(self, record: Any) -> bool:
        """Tell whether a record meets all conditions; raise as `Comparison.holds` does."""
        return all(comparison.holds(record) for comparison in self.comparisons)


def _after(form: re.Pattern[str], text: str, begin: int) -> int:
    found = form.match(text, begin)
    return begin if found is None else found.end()


def _error(text: str, place: int, what: str) -> BadRequest:
    rest = f"at character {place + 1}, {shortened(text[place:])}" if text[place:] else "at its end"
    return BadRequest(f"where={text!r} is no condition: {rest}: {what}. {_HOW}")


def _field(text: str, begin: int, end: int) -> str | None:
    name = text[begin:end].strip()
    if name.startswith((f"{_RECORD}[", f"{_RECORD}.")):
        what = "a condition is not Python: give the name alone, in JSON quotes if it begins like this"
        raise _error(text, begin, what)
    if not name.startswith('"'):
        return None if name == _RECORD else name
    try:
        return msgspec.json.decode(name, type=str)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise _error(text, begin, f"the field's name is no JSON text: {error}") from None


def _value(text: str, begin: int) -> Value:
    written = text[begin:].strip()
    try:
        value = msgspec.json.decode(written)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        if written.startswith('"'):
            raise _error(text, begin, f"the value is no JSON text: {error}") from None
        return written
    if isinstance(value, str | int | float | bool | None):
        return value
    raise _error(text, begin, "a value is a number, a text, true, false or null")


def _field_of(record: Any, name: str) -> Any:
    """Return a field of a record's data, so that a client cannot reach any other attribute."""
    if isinstance(record, Mapping):
        if name in record:
            return record[name]
        raise ValueError(f"there is no field {name!r}, but {shortened([*map(str, record)])}")
    names = _names_of(record)
    if name in names:
        return getattr(record, name)
    if isinstance(record, tuple | list) and name.isdecimal():
        if int(name) < len(record):
            return record[int(name)]
        raise ValueError(f"there is no element {name}, but {len(record)} elements, from 0")
    what = f"fields {shortened([*names])}" if names else f"a {type(record).__qualname__} without named fields"
    raise ValueError(f"there is no field {name!r}, but {what}; the record itself is {_RECORD!r}")


def _names_of(record: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return tuple(field.name for field in dataclasses.fields(record))
    if isinstance(record, msgspec.Struct):
        return record.__struct_fields__
    return tuple(getattr(record, "_fields", ())) if isinstance(record, tuple) else ()


def _comparable(found: Any, value: Value, field: str | None) -> tuple[Any, Any]:
    kinds = _kind(found), _kind(value)
    match kinds:
        case ("a number", "a number"):
            return found, Decimal(str(value)) if isinstance(found, Decimal) else value
        case ("a time", "a text"):
            return found, (datetime if isinstance(found, datetime) else date).fromisoformat(str(value))
        case ("a text" | "something else", "a text"):
            return str(found), value  # values without JSON form are shown and compared as text
        case (one, other) if one == other:
            return found, value
    name = _RECORD if field is None else repr(field)
    hint = f', or write ...=="{value}"' if kinds == ("a text", "a number") else ""
    raise TypeError(f"{name} is {kinds[0]} here, and {value!r} is {kinds[1]}: compare with {kinds[0]}{hint}")


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case str():
            return "a text"
        case Real() | Decimal():
            return "a number"
        case date():
            return "a time"
        case Mapping() | list() | tuple() | set() | frozenset():
            return "a collection"
        case _:
            return "something else"
