"""Random dataflows as people describe them, finished or not, to be drawn."""

from random import Random
from typing import Any

from hypothesis import strategies as st

import tidewheel as tw
from tests.laws.strategies import SEEDS
from tidewheel.operators.base.batchwise import build_pass

KEYS: tuple[Any, ...] = ("key", ("a", "b"), str.lower, lambda record: record)
DEEPEST = 3


class RandomFlow:
    """Puts one operator after another behind streams drawn by lot, loops in loops among them."""

    def __init__(self, random: Random, names: list[str], steps: int, entered_again: bool = True) -> None:
        self._random = random
        self._names = names
        self._steps = steps
        self._entered_again = entered_again
        self._count = 0
        self.flow = tw.Dataflow(self._name())

    def describe(self) -> tw.Dataflow:
        """Return a dataflow of about as many operators as steps were given."""
        streams: list[tw.Stream[Any]] = [self.flow.input(self._unique()) for _ in range(self._random.randint(0, 2))]
        self._go_on(streams, None)
        return self.flow

    def _name(self) -> str:
        return self._random.choice(self._names)

    def _unique(self) -> str:
        self._count += 1
        return f"{self._name()}{self._count}"

    def _go_on(self, streams: list[tw.Stream[Any]], loop: tw.types.Loop | None, depth: int = 0) -> None:
        for _ in range(self._random.randint(1, 8)):
            if self._steps > 0:
                self._steps -= 1
                self._add(streams, loop, depth)

    def _add(self, streams: list[tw.Stream[Any]], loop: tw.types.Loop | None, depth: int) -> None:
        random = self._random
        if not streams or random.random() < 0.05:
            opened = loop.feedback() if loop is not None else self.flow.feedback()
            streams.append(opened)
            if random.random() < 0.5:
                opened.connect(random.choice(streams))
            return
        one, other = random.choice(streams), random.choice(streams)
        kind = random.choice(("oblivious", "exchange", "concat", "binary", "split", "end", "loop", "loop"))
        if kind == "loop" and depth < DEEPEST:
            self._loop(streams, one, loop, depth)
        elif kind == "end":
            one.capture(self._unique()) if random.random() < 0.5 else one.probe(self._unique())
        elif kind == "split":
            streams += self.flow.operator([one, other], 2, build_pass, name=self._name())
        else:
            streams.append(self._joined(kind, one, other))

    def _joined(self, kind: str, one: tw.Stream[Any], other: tw.Stream[Any]) -> tw.Stream[Any]:
        key = self._random.choice(KEYS)
        if kind == "exchange":
            return one.exchange(key)
        if kind == "concat":
            return one.concat(other, one)
        if kind == "binary":
            return one.binary(other, build_pass, (key, None), name=self._name())
        return one.map(str) if self._random.random() < 0.5 else one.unary(build_pass, name=self._name())

    def _loop(
        self, streams: list[tw.Stream[Any]], entering: tw.Stream[Any], loop: tw.types.Loop | None, depth: int
    ) -> None:
        inner = loop.inner(self._name()) if loop is not None else self.flow.scope(self._name())
        entered = entering.enter(inner)
        back = inner.feedback()
        inside: list[tw.Stream[Any]] = [entered.concat(back)]
        inside += [self._random.choice(streams).enter(inner) for _ in range(self._random.choice((0, 0, 1, 2)))]
        self._go_on(inside, inner, depth + 1)
        if self._random.random() < 0.9:
            back.connect(self._random.choice(inside))
        streams.append(self._random.choice(inside).leave())
        if self._entered_again and self._random.random() < 0.3:
            streams.append(streams[-1].enter(inner).leave())


def flows(*names: str, entered_again: bool = True) -> st.SearchStrategy[tw.Dataflow]:
    """Random dataflows whose operators, inputs and loops have the names given.

    With ``entered_again``, what comes out of a loop may enter it again.
    """
    given = list(names) or ["one", "other", "third"]
    return st.builds(
        lambda seed, steps: RandomFlow(Random(seed), given, steps, entered_again).describe(),
        SEEDS,
        st.integers(0, 40),
    )


WEIRD = (
    'say "hi"',
    "a\u200db",
    "<script>alert(1)</script>",
    "x <- y, <= z",
    "日本",
    "[probe 'x']",
    "  ",
    "\xa0",
    "end",
    "a/b",
    "`x`",
    "#35;&amp;",
    "%%{init: {}}%%",
    "style a:#fff",
    "long" * 30,
)
"""Names with what text, HTML or Mermaid might read as theirs."""
