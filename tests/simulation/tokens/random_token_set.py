"""Sets of tokens, used at random."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import Random

from tests.kit.simulation.violation import ViolationError
from tests.simulation.tokens.world import World
from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.operator_context import OperatorContext


class RandomTokenSet:
    """The set that an operator keeps for one of its outputs.

    Args:
        world: where its tokens are shown.
        context: the operator's.
        output: the number of the output.
        domain: the times of that output.
        random: the choices.
        later: returns a random time at or after a time.
    """

    def __init__(
        self,
        world: World,
        context: OperatorContext,
        output: int,
        domain: TimeDomain,
        random: Random,
        later: Callable[[Time], Time],
    ) -> None:
        self._world = world
        self._context = context
        self._output = output
        self._domain = domain
        self._random = random
        self._later = later
        self._tokens = TokenSet()

    def take(self, token: TimestampToken) -> None:
        """Put a token into the set."""
        times = (*self._tokens.times, token.time)
        self._tokens.insert(token)
        self._check(times)

    def use(self, frontiers: Sequence[Antichain], send: Callable[[TimestampToken], None]) -> None:
        """Do something with the set, if there is anything in it."""
        if not self._tokens:
            return
        times: Iterable[Time] = self._tokens.times
        match self._random.choice(("send", "downgrade", "downgrade", "follow", "overreach", "insert", "discard")):
            case "send":
                with self._tokens.delayed(self._some_later()) as token:
                    send(token)
            case "downgrade":
                times = [self._some_later() for _ in range(self._random.randint(1, 3))]
                self._tokens.downgrade(times)
            case "follow":
                for frontier in frontiers[:1]:
                    times = [time for time in frontier if self._allows(time)]
                    self._tokens.downgrade(times)
            case "overreach":
                self._overreach()
            case "insert":
                self._tokens.insert(self._tokens.delayed(self._some_later()))
            case "discard":
                times = ()
                self._tokens.discard()
        self._check(times)

    def discard(self) -> None:
        """Give up all tokens."""
        self._tokens.discard()
        self._check(())

    def _overreach(self) -> None:
        """Try to take the set forward to a time that is allowed and to one that is not."""
        minimum = self._domain.minimum()
        if self._allows(minimum):
            return
        with suppress(TokenError):
            self._tokens.downgrade([self._some_later(), minimum])

    def _allows(self, time: Time) -> bool:
        return any(self._domain.less_equal(token.time, time) for token in self._tokens)

    def _some_later(self) -> Time:
        return self._later(self._random.choice(self._tokens.times))

    def _check(self, times: Iterable[Time]) -> None:
        """Show the tokens, and check that they are for the minimal ones of ``times``."""
        for token in self._tokens:
            self._world.show(self._context, self._output, token)
        expected = Antichain(self._domain, times)
        if Antichain(self._domain, self._tokens.times) != expected or len(self._tokens) != len(expected):
            raise ViolationError("tokens", f"{self._tokens} was to be for {expected}")
