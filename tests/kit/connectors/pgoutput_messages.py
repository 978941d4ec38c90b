"""Messages of pgoutput as a server sends them."""

from struct import pack

from tidewheel.connectors.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Text,
    Truncate,
    Update,
)


def encoded(message: Message) -> bytes:
    """Return the bytes of a message."""
    match message:
        case Begin(lsn):
            return pack(">cQqI", b"B", lsn, 0, 0)
        case Commit(lsn):
            return pack(">cBQQq", b"C", 0, 0, lsn, 0)
        case Relation(oid, name, columns):
            schema, table = name.split(".", 1)
            described = b"".join(
                pack(">B", column.is_key) + column.name.encode() + b"\0" + pack(">Ii", column.type_oid, -1)
                for column in columns
            )
            names = schema.encode() + b"\0" + table.encode() + b"\0"
            return pack(">cI", b"R", oid) + names + pack(">cH", b"d", len(columns)) + described
        case Insert(oid, new):
            return pack(">cIc", b"I", oid, b"N") + _row(new)
        case Update(oid, None, new):
            return pack(">cIc", b"U", oid, b"N") + _row(new)
        case Update(oid, old, new):
            return pack(">cIc", b"U", oid, b"O") + _row(old or ()) + b"N" + _row(new)
        case Delete(oid, old):
            return pack(">cIc", b"D", oid, b"K") + _row(old)
        case Truncate(oids):
            return pack(">cIB", b"T", len(oids), 0) + b"".join(pack(">I", oid) for oid in oids)


def _row(values: tuple[Text, ...]) -> bytes:
    parts = [pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            parts.append(pack(">cI", b"t", len(value)) + value)
    return b"".join(parts)
