"""The records of simulated substreams, which say themselves what they belong to."""

from typing import NamedTuple


class Life(NamedTuple):
    """What belongs to a key from one end of it at the source to the next; ``number`` counts them from 1."""

    source: int
    key: int
    number: int


class Record(NamedTuple):
    """A record of one life of a key.

    Attributes:
        life: what it belongs to.
        number: decides to which worker it goes where records are exchanged.
        hops: how many times it can go round loops.
        is_last: whether its source promises that nothing more of this life comes.
    """

    life: Life
    number: int
    hops: int
    is_last: bool = False


def key_of(record: Record) -> int:
    """Return the key of the record's substream."""
    return record.life.key


def number_of(record: Record) -> int:
    """Return what decides where it goes."""
    return record.number


def is_last(record: Record) -> bool:
    """Tell whether it is the last of its life."""
    return record.is_last


def moved(record: Record) -> Record:
    """Return the record with another number."""
    return record._replace(number=record.number * 7 + 3)


def has_odd_number(record: Record) -> bool:
    """Tell whether its number is odd."""
    return record.number % 2 == 1


def both(record: Record) -> list[Record]:
    """Return two records for one, as long as the numbers are small."""
    return [record, moved(record)] if record.number < 50 else [record]


def one_hop_less(record: Record) -> list[Record]:
    """Return the record after another round of a loop; nothing after the last."""
    return [record._replace(hops=record.hops - 1, number=record.number + 1)] if record.hops > 0 else []
