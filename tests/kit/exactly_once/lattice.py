"""The lattice of the seed's figure 2: an oracle for what a stream knows of a tick."""

from enum import Enum
from typing import Any

from tidewheel.pubsub.exactly_once.knowledge import KnowledgeStream


class Knowledge(Enum):
    """The knowledge of one tick, as `tidewheel.pubsub.exactly_once.knowledge` describes it."""

    Q = "Q"
    F = "F"
    D = "D"
    S = "S"
    DSTAR = "D*"
    E = "E"


_TABLE = """
    Q  F  D  S  D* E
Q   Q  F  D  S  D* E
F   F  F  D* S  D* E
D   D  D* D  E  D* E
S   S  S  E  S  E  E
D*  D* D* D* E  D* E
E   E  E  E  E  E  E
"""


def _lattice(table: str) -> dict[tuple[Knowledge, Knowledge], Knowledge]:
    columns, *rows = [[Knowledge(name) for name in line.split()] for line in table.strip().splitlines()]
    return {(row, column): bound for row, *bounds in rows for column, bound in zip(columns, bounds, strict=True)}


LUB = _lattice(_TABLE)
"""The least upper bound of each two values. D with D is D for the same message, and E otherwise."""


def lowered(value: Knowledge) -> Knowledge:
    """Return the value that a stream keeps: F in place of D* and S."""
    return Knowledge.F if value in (Knowledge.S, Knowledge.DSTAR) else value


def value_of(stream: KnowledgeStream[Any], tick: int) -> Knowledge:
    """Return what a stream knows of a tick."""
    if tick in stream.data:
        return Knowledge.D
    return Knowledge.F if tick in stream.known else Knowledge.Q
