"""The news of substreams that workers send each other."""

from typing import Self, TypeAlias

import msgspec

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key

Counts: TypeAlias = dict[tuple[int, Time], int]
"""Differences of counts that are not zero, by (location number, time)."""

Shape: TypeAlias = tuple[tuple[tuple[int, Time], int], ...]
"""Such differences, of which many substreams may have the same."""

Keys: TypeAlias = dict[int, list[Key]]
"""Substreams in order, by the number of the declaration, or of a location."""


class Changes(msgspec.Struct, frozen=True, array_like=True):
    """What has happened to substreams of one declaration.

    - ``declaration``: its number.
    - ``keys``: those of the substreams, in the order in which they were closed.
    - ``which``: for each, the index in ``shapes`` of what has happened to it.
    - ``shapes``: those.
    """

    declaration: int
    keys: list[Key]
    which: list[int]
    shapes: list[Shape]

    def only(self, point: tuple[int, Time]) -> Self:
        """Return only what has happened at a point, and to the keys to which something has happened there."""
        shapes = [tuple(change for change in shape if change[0] == point) for shape in self.shapes]
        places = [place for place, at in enumerate(self.which) if shapes[at]]
        keys, which = [self.keys[place] for place in places], [self.which[place] for place in places]
        return type(self)(self.declaration, keys, which, shapes)


class Ending(msgspec.Struct, frozen=True, array_like=True):
    """No more comes to where a worker lets records in than what waits there for its key to be used again.

    - ``declaration``: its number.
    - ``is_first``: whether this worker had not said so before.
    - ``waiting``: keys of which something waits, in addition to those told before.
    - ``done``: keys told before of which nothing waits any more.
    """

    declaration: int
    is_first: bool
    waiting: list[Key]
    done: list[Key]


class SubstreamNews(msgspec.Struct, frozen=True, array_like=True):
    """What one worker has to tell another, all of which is applied at once.

    To worker 0, which sees all:

    - ``changes``: what has happened to substreams that are about to end.
    - ``ending``: declarations at which no more comes to the sender than what waits there.
    - ``finished``: the numbers of declarations at which the sender will let in nothing any more.
    - ``is_first``: whether these are the first news of a worker that goes on from a snapshot: they tell of all it has.

    From worker 0, to every other:

    - ``closing``: substreams that are about to end, so that what happens to them is to be told.
    - ``all_closing``: declarations of which that holds for every substream, as nobody lets in anything any more.
    - ``turns``: substreams at which nobody sends any more, in order, where inputs on a cycle take them in by turns.
    - ``ends``: by location, substreams that have ended there, in order.
    - ``over``: substreams of which nothing is left that could get to those who are told of ends.
    - ``all_over``: declarations of which no substream is left, or can come.
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
