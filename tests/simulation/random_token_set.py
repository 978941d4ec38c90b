"""Sets of tokens, used at random."""

from collections.abc import Callable, Sequence
from random import Random

from tests.simulation.violation import ViolationError
from tests.simulation.world import World
from tidewheel.progress import Antichain, Time
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.token_set import TokenSet
from tidewheel.runtime.tokens import TimestampToken


class RandomTokenSet:
    """The set that an operator keeps for one of its outputs.

    Args:
        world: where its tokens are shown.
        context: the operator's.
        output: the number of the output.
        random: the choices.
        later: returns a random time at or after a time.
    """

    def __init__(
        self, world: World, context: OperatorContext, output: int, random: Random, later: Callable[[Time], Time]
    ) -> None:
        self._world = world
        self._context = context
        self._output = output
        self._random = random
        self._later = later
        self._tokens = TokenSet()

    def take(self, token: TimestampToken) -> None:
        """Put a token into the set."""
        self._tokens.insert(token)
        self._show()

    def use(self, frontiers: Sequence[Antichain], send: Callable[[TimestampToken], None]) -> None:
        """Do something with the set, if there is anything in it."""
        if not self._tokens:
            return
        match self._random.choice(("send", "downgrade", "downgrade", "follow", "overreach", "insert", "discard")):
            case "send":
                with self._tokens.delayed(self._some_later()) as token:
                    send(token)
            case "downgrade":
                self._tokens.downgrade([self._some_later() for _ in range(self._random.randint(1, 3))])
            case "follow":
                for frontier in frontiers[:1]:
                    self._tokens.downgrade([time for time in frontier if self._allows(time)])
            case "overreach":
                self._overreach()
            case "insert":
                self._tokens.insert(self._tokens.delayed(self._some_later()))
            case "discard":
                self._tokens.discard()
        self._show()

    def discard(self) -> None:
        """Give up all tokens."""
        self._tokens.discard()

    def _overreach(self) -> None:
        """Try to go back, to the minimum time, with one of two tokens."""
        [first, *_] = self._tokens
        minimum = first.domain.minimum()
        before = self._tokens.times
        if self._allows(minimum):
            return
        try:
            self._tokens.downgrade([self._some_later(), minimum])
        except TokenError:
            if self._tokens.times != before:
                raise ViolationError("tokens", f"{self._tokens} was {before} before it was taken back") from None
        else:
            raise ViolationError("tokens", f"{before} went back to {self._tokens}")

    def _allows(self, time: Time) -> bool:
        return any(token.domain.less_equal(token.time, time) for token in self._tokens)

    def _some_later(self) -> Time:
        return self._later(self._random.choice(self._tokens.times))

    def _show(self) -> None:
        for token in self._tokens:
            self._world.show(self._context, self._output, token)
