"""The news about substreams that workers send each other."""

from typing import Self, TypeAlias

import msgspec

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key

Counts: TypeAlias = dict[tuple[int, Time], int]
"""Changes of counts, none of them zero, by (location number, time)."""

Shape: TypeAlias = tuple[tuple[tuple[int, Time], int], ...]
"""Changes of counts that many substreams may share, as ((location number, time), change)."""

Keys: TypeAlias = dict[int, list[Key]]
"""The keys of substreams, in order, by the number of a declaration or of a location."""


class Changes(msgspec.Struct, frozen=True, array_like=True):
    """The changes of substreams of one declaration.

    - ``declaration``: its number.
    - ``keys``: the substreams, in the order in which they were closed.
    - ``which``: for each of them, an index in ``shapes``.
    - ``shapes``: the distinct lists of changes.
    """

    declaration: int
    keys: list[Key]
    which: list[int]
    shapes: list[Shape]

    def only(self, point: tuple[int, Time]) -> Self:
        shapes = [tuple(change for change in shape if change[0] == point) for shape in self.shapes]
        places = [place for place, at in enumerate(self.which) if shapes[at]]
        keys, which = [self.keys[place] for place in places], [self.which[place] for place in places]
        return type(self)(self.declaration, keys, which, shapes)


class Ending(msgspec.Struct, frozen=True, array_like=True):
    """From now on, a declaration on this worker receives only records that wait there for their keys.

    - ``declaration``: its number.
    - ``is_first``: whether this is the worker's first such report.
    - ``waiting``: keys with waiting records, in addition to those reported before.
    - ``done``: reported keys that no longer have waiting records.
    """

    declaration: int
    is_first: bool
    waiting: list[Key]
    done: list[Key]


class SubstreamNews(msgspec.Struct, frozen=True, array_like=True):
    """One worker's news for another, applied at once.

    To worker 0, which receives the news of all workers:

    - ``changes``: changes of substreams that are about to end.
    - ``ending``: declarations that receive only records that wait at the sender.
    - ``finished``: the numbers of declarations for which the sender accepts no more records.
    - ``is_first``: whether this is the first, complete news of a restored worker.

    From worker 0, to every other:

    - ``closing``: substreams that are about to end, so that workers must send their changes.
    - ``all_closing``: declarations of which all substreams are closed, since no worker accepts records any more.
    - ``turns``: closed substreams, in order, for inputs on a cycle, which receive one substream after the other.
    - ``ends``: for each location, the substreams that have ended there, in order.
    - ``over``: substreams that have ended: none of their records or tokens can reach an operator that reads ends.
    - ``all_over``: declarations that have no substream and will have none.
    """

    changes: list[Changes] = []
    finished: list[int] = []
    ending: list[Ending] = []
    closing: Keys = {}
    all_closing: list[int] = []
    turns: Keys = {}
    ends: Keys = {}
    over: Keys = {}
    all_over: list[int] = []
    is_first: bool = False
