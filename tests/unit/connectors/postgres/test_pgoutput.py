"""Messages of pgoutput are decoded as the documentation of Postgres lays them out."""

from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.connectors.pgoutput_messages import encoded
from tests.kit.messages import raises
from tidewheel.connectors.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    FormatError,
    Insert,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    decode,
    lsn_of,
    lsn_text,
)

_OIDS = st.integers(0, 2**32 - 1)
_LSNS = st.integers(0, 2**64 - 1)
_NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)
_ROWS = st.lists(st.one_of(st.none(), st.just(UNCHANGED), st.binary(max_size=50)), max_size=8).map(tuple)
_COLUMNS = st.lists(st.builds(RelationColumn, _NAMES, st.booleans(), _OIDS), max_size=8).map(tuple)
MESSAGES = st.one_of(
    st.builds(Begin, _LSNS),
    st.builds(Commit, _LSNS),
    st.builds(Relation, _OIDS, st.tuples(_NAMES, _NAMES).map(".".join), _COLUMNS),
    st.builds(Insert, _OIDS, _ROWS),
    st.builds(Update, _OIDS, st.one_of(st.none(), _ROWS), _ROWS),
    st.builds(Delete, _OIDS, _ROWS),
    st.builds(Truncate, st.lists(_OIDS, max_size=4).map(tuple)),
)


@given(MESSAGES)
def test_each_message_is_decoded(message: Message) -> None:
    """Whatever values, names and numbers it has."""
    assert decode(encoded(message)) == message


@given(MESSAGES, st.data())
def test_a_damaged_message_is_refused_or_another_one(message: Message, data: st.DataObject) -> None:
    """No error but its own."""
    whole = encoded(message)
    damaged = data.draw(st.one_of(st.integers(0, len(whole) - 1).map(lambda end: whole[:end]), st.binary(max_size=40)))
    with suppress(FormatError):
        decode(damaged)


def test_messages_of_a_server() -> None:
    """As Postgres 15 has sent them."""
    begin = bytes.fromhex("42 00000000 0152caf0 0003045e 686c39c5 000002d9")
    commit = bytes.fromhex("43 00 00000000 0152caf0 00000000 0152cb20 0003045e 686c39c5")
    insert = b"I\x00\x00@\x08N\x00\x04t\x00\x00\x00\x012t\x00\x00\x00\x01yn" + b"t\x00\x00\x00\x014"
    assert decode(begin) == Begin(0x152CAF0)
    assert decode(commit) == Commit(0x152CB20)
    assert decode(insert) == Insert(0x4008, (b"2", b"y", None, b"4"))
    assert decode(b"Y\x00\x00@\x01public\x00mood\x00") is None


@pytest.mark.parametrize("message", [b"", b"S" + bytes(4), pack(">cIcH", b"I", 1, b"N", 1) + b"x"])
def test_what_is_no_message_is_refused(message: bytes) -> None:
    """Such as one of a later version of the protocol."""
    with raises(FormatError):
        decode(message)


@given(_LSNS)
def test_places_in_the_log_are_numbers(lsn: int) -> None:
    """Their text is that of Postgres."""
    assert lsn_of(lsn_text(lsn)) == lsn
