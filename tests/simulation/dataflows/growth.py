"""Random dataflows with loops and nested scopes: their shape. What their operators do is the matter of a palette."""

from collections.abc import Callable
from random import Random
from typing import Any, Protocol, TypeAlias

import tidewheel as tw
from tidewheel.progress import TimeDomain
from tidewheel.runtime.description.scope import Scope

Streams: TypeAlias = list[tw.Stream[Any]]
"""The streams of one scope, the oldest first."""

Connect: TypeAlias = Callable[[tw.Stream[Any]], None]
"""Lays the edge from a stream to a feedback."""


class Palette(Protocol):
    """What a dataflow is made of."""

    def feedbacks(self, scope: Scope) -> int:
        """Return how many feedbacks a scope has."""

    def add_feedback(self, scope: Scope, streams: Streams) -> Connect:
        """Add a feedback, and its output to ``streams``; return what connects it."""

    def add(self, scope: Scope, streams: Streams, size: int) -> int:
        """Add something of up to about ``size`` operators, and its outputs to ``streams``; return how many it was."""

    def finish(self, scope: Scope, streams: Streams) -> None:
        """Add what comes last to a scope, once its feedbacks are connected."""


class Growth:
    """Adds operators to a dataflow, scope by scope.

    What goes round a cycle passes the feedback of the scope in which the whole cycle lies, so each time round is
    later. The palette has each feedback followed by something that takes a hop away, so that no record goes round for
    ever.

    Args:
        flow: the dataflow.
        random: the choices.
        palette: what it is made of.
        deepest: so many scopes lie in each other at most.

    Attributes:
        named: how many names were given.
    """

    def __init__(self, flow: tw.Dataflow, random: Random, palette: Palette, deepest: int) -> None:
        self.flow = flow
        self._random = random
        self._palette = palette
        self._deepest = deepest
        self.named = 0

    def grow(self, scope: Scope, streams: Streams, size: int) -> None:
        """Add about ``size`` operators in ``scope`` and below, and their outputs to ``streams``."""
        connect = [self._palette.add_feedback(scope, streams) for _ in range(self._palette.feedbacks(scope))]
        while size > 0:
            size -= self._palette.add(scope, streams, size)
        for close in connect:
            close(self.any(streams))
        self._palette.finish(scope, streams)

    def may_nest(self, scope: Scope) -> bool:
        """Tell whether a loop may lie in a scope."""
        return scope.nesting.depth < self._deepest

    def enter_loop(self, scope: Scope, streams: Streams, rounds: TimeDomain | None = None) -> tuple[Scope, Streams]:
        """Have one or two streams enter a new loop; return its scope, for more to grow in it, and the streams."""
        loop = tw.types.Loop(self.flow, scope.inside(self.name("loop"), rounds))
        return loop._scope, [self.any(streams).enter(loop) for _ in range(self._random.choice((1, 1, 2)))]

    def any(self, streams: Streams) -> tw.Stream[Any]:
        """Choose a stream, a recent one more often than an old one."""
        return streams[-1 - int(len(streams) * self._random.random() ** 2)]

    def name(self, kind: str) -> str:
        """Return a name that nothing else has."""
        self.named += 1
        return f"{kind} {self.named}"
