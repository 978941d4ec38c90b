"""The world of one simulation: it tells operators when to wait, and where their records go."""

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias
from zlib import crc32

from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort

Record: TypeAlias = tuple[int, int]
"""A number, and how many times more the record may go round loops."""

NUMBERS = 16


def number_of(record: Record) -> int:
    """Return the number of a record."""
    return record[0]


def made_of(value: object, hops: int) -> Record:
    """Return a record that depends on a value, and on nothing else."""
    return crc32(repr(value).encode()) % NUMBERS, hops


class World:
    """What all operators of one simulation see.

    When they wait is the only thing that depends on chance: what they send at each time does not.

    Attributes:
        draining: whether they are to wait no more, because the end is wanted.
    """

    def __init__(self, random: Random) -> None:
        self.draining = False
        self._random = random
        self._wakers: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Forget the workers of the life before."""
        self.draining = False
        self._wakers.clear()

    def enlist(self, context: OperatorContext) -> None:
        """Let an operator on one worker take part."""
        self._wakers.append(context.activate)

    def drain(self) -> None:
        """Have all operators scheduled, and wait no more."""
        self.draining = True
        for wake in self._wakers:
            wake()

    def waits(self, chance: float) -> bool:
        """Tell whether an operator is to wait."""
        return not self.draining and self._random.random() < chance

    def read(self, context: OperatorContext, port: InputPort) -> Iterator[tuple[LentToken, Record]]:
        """Yield records with their tokens, and often not all that are there."""
        if not self.waits(0.4):
            for lent, batch in port:
                yield from ((lent, record) for record in batch)
                if self.waits(0.4):
                    break
        if not port._running.is_empty:
            self.come_back(context)

    def come_back(self, context: OperatorContext) -> None:
        """Have an operator scheduled again, or leave it to what arrives next, or to the end."""
        if self.waits(0.6):
            context.activate()
