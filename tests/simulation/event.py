"""Events: all that a schedule consists of, in a form that can be printed, read back and left out."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["step", "deliver", "send", "advance", "close", "clone", "outside", "quiet"]


@dataclass(frozen=True, slots=True)
class Event:
    """One choice of the schedule.

    ===========  ====================================  ===============================================================
    kind         arguments                             what happens
    ===========  ====================================  ===============================================================
    ``step``     worker                                the worker takes one step
    ``deliver``  sender, receiver                      the oldest envelope on that link arrives; feeders are below 0
    ``send``     input, worker, handle, records        a feeder sends to the worker's share of an input
    ``advance``  input, worker, handle, which way      it advances the handle, by the given one of a few summaries
    ``close``    input, worker, handle                 it closes the handle
    ``clone``    input, worker, handle, way, feeder    it makes one more handle, advanced so, for another feeder
    ``outside``  worker, choice                        another thread of the worker uses a token that an operator holds
    ``quiet``                                          operators rest until all that is on its way has arrived
    ===========  ====================================  ===============================================================

    >>> Event.parse(str(Event("deliver", (0, 2))))
    Event(kind='deliver', arguments=(0, 2))
    """

    kind: Kind
    arguments: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.kind, *map(str, self.arguments)))

    @classmethod
    def parse(cls, line: str) -> "Event":
        """Return the event that a line of a printed schedule stands for."""
        kind, *arguments = line.split()
        for known in get_args(Kind):
            if kind == known:
                return cls(known, tuple(map(int, arguments)))
        raise ValueError(f"no event is called {kind!r}")
