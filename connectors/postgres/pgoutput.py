"""The messages of pgoutput, the output plugin of Postgres, in version 1 of its protocol; without I/O.

Source: "Logical Replication Message Formats" of the documentation of Postgres.
"""

from dataclasses import dataclass
from enum import Enum
from struct import Struct
from struct import error as NoStruct  # noqa: N812 - an exception
from typing import Final, Literal, TypeAlias


class Unchanged(Enum):
    """Stands for a value that the log leaves out: a large value, stored outside its row, that was not updated."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED

Text: TypeAlias = bytes | Literal[Unchanged.UNCHANGED] | None
"""A value as text, None for null."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The beginning of a transaction; all its changes follow."""

    commit_lsn: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction; ``end_lsn`` is the place in the log after it."""

    end_lsn: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column: whether the log identifies rows by it, and the number of its type."""

    name: str
    is_key: bool
    type_oid: int


@dataclass(frozen=True, slots=True)
class Relation:
    """The columns of a table from this message on; the server sends it before a table's first change."""

    oid: int
    name: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row of a table."""

    relation: int
    new: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """A changed row: the new row and, if the log has it, the old row.

    ``old`` has only the key's columns, unless the log identifies rows by all columns.
    """

    relation: int
    old: tuple[Text, ...] | None
    new: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """A deleted row. It has only the key's columns, unless the log identifies rows by all columns."""

    relation: int
    old: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that were emptied."""

    relations: tuple[int, ...]


Message: TypeAlias = Begin | Commit | Relation | Insert | Update | Delete | Truncate

_BEGIN: Final = Struct(">xQ")
_COMMIT: Final = Struct(">xxQQ")
_OID: Final = Struct(">I")
_COUNT: Final = Struct(">H")
_COLUMN_TYPE: Final = Struct(">Ii")
_OTHERS: Final = b"OYM"
"""The message types for origins, types and messages, which change no row."""


class FormatError(ValueError):
    """The bytes are no message of the protocol."""


def lsn_of(text: str) -> int:
    """Return a place in the log (an LSN) as a number.

    >>> lsn_of("1/152CA60"), lsn_text(4317170272)
    (4317170272, '1/152CA60')
    """
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return a place in the log (an LSN) as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def decode(message: bytes) -> Message | None:
    """Decode a message; return None if it changes no row. Raise FormatError if the bytes are not a message.

    >>> decode(bytes.fromhex("44 00004008 4b 0002 74 00000001 37 6e"))
    Delete(relation=16392, old=(b'7', None))
    """
    kind = message[:1]
    try:
        if kind == b"I":
            return Insert(_oid(message, 1), _Values(message, 6).all_of())
        if kind == b"U":
            return _update(message)
        if kind == b"D":
            return Delete(_oid(message, 1), _Values(message, 6).all_of())
        if kind == b"B":
            return Begin(*_BEGIN.unpack_from(message))
        if kind == b"C":
            return Commit(_COMMIT.unpack_from(message)[1])
        if kind == b"R":
            return _relation(message)
        if kind == b"T":
            count = _oid(message, 1)
            return Truncate(tuple(_oid(message, 6 + 4 * number) for number in range(count)))
    except (IndexError, ValueError, NoStruct) as error:
        raise FormatError(f"a message of pgoutput is damaged: {message[:80]!r}") from error
    if kind and kind in _OTHERS:
        return None
    raise FormatError(f"no message of pgoutput, version 1: {message[:80]!r}")


def _oid(message: bytes, at: int) -> int:
    (oid,) = _OID.unpack_from(message, at)
    return int(oid)


def _update(message: bytes) -> Update:
    oid, form = _oid(message, 1), message[5:6]
    if form == b"N":
        return Update(oid, None, _Values(message, 6).all_of())
    before = _Values(message, 6)
    old = before.all_of()
    return Update(oid, old, _Values(message, before.at + 1).all_of())


def _relation(message: bytes) -> Relation:
    oid = _oid(message, 1)
    schema, at = _name(message, 5)
    table, at = _name(message, at)
    (count,) = _COUNT.unpack_from(message, at + 1)  # behind the replica identity
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at]
        name, at = _name(message, at + 1)
        type_oid, _ = _COLUMN_TYPE.unpack_from(message, at)
        at += _COLUMN_TYPE.size
        columns.append(RelationColumn(name, bool(flags & 1), type_oid))
    return Relation(oid, f"{schema or 'pg_catalog'}.{table}", tuple(columns))


def _name(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1


@dataclass(slots=True)
class _Values:
    """Reads the values of a row; ``at`` is the offset of the next value."""

    message: bytes
    at: int

    def all_of(self) -> tuple[Text, ...]:
        message, at = self.message, self.at
        (count,) = _COUNT.unpack_from(message, at)
        at += 2
        values: list[Text] = []
        for _ in range(count):
            kind = message[at]
            at += 1
            if kind == 0x74:  # t
                (size,) = _OID.unpack_from(message, at)
                at += 4
                if at + size > len(message):
                    raise IndexError("the value ends behind the message")
                values.append(message[at : at + size])
                at += size
            elif kind == 0x6E:  # n
                values.append(None)
            elif kind == 0x75:  # u
                values.append(UNCHANGED)
            else:
                raise ValueError(f"no form of a value: {kind!r}")
        self.at = at
        return tuple(values)
