"""Sets of timestamp tokens, for operators that may send at or after some frontier.

Source: seed "Timestamp tokens" (Lattuada and McSherry), section 3; timely dataflow's CapabilitySet.
"""

from collections.abc import Iterable, Iterator
from typing import Self

from tidewheel.progress import Antichain, Time
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.tokens.timestamp_token import TimestampToken


class TokenSet:
    """Tokens of one output whose times are an antichain: the right to send at or after any of them.

    Inserted tokens belong to the set, which discards redundant tokens. Discard the set in the end: by `discard`, a
    ``with`` block, or `downgrade` to no time. A set is not thread-safe.

    >>> from tidewheel import Dataflow, run
    >>> def build(context):
    ...     held = TokenSet([context.token()])
    ...     held.downgrade([3])
    ...     print(held)
    ...     held.discard()
    ...     return lambda output: None
    >>> flow = Dataflow("sets")
    >>> _ = flow.operator([], 1, build, name="source")
    >>> with run(flow, engine="local") as job:
    ...     job.wait()
    TokenSet([3])
    """

    __slots__ = ("_tokens",)

    def __init__(self, tokens: Iterable[TimestampToken] = ()) -> None:
        self._tokens: list[TimestampToken] = []
        given = list(tokens)
        for token in given:
            self._check(token, given[0], f"a TokenSet with {given[0]!r}")
        for token in given:
            self._take(token)

    @property
    def times(self) -> tuple[Time, ...]:
        """The times of the tokens, an antichain."""
        return tuple(token.time for token in self._tokens)

    def insert(self, token: TimestampToken) -> None:
        """Add a token; it then belongs to the set.

        Raises:
            TokenError: the token is discarded, or is for another output.
        """
        self._check(token, self._tokens[0] if self._tokens else token, repr(self))
        self._tokens = [own for own in self._tokens if own.is_live]  # other code may have discarded some
        self._take(token)

    @staticmethod
    def _check(token: TimestampToken, other: TimestampToken, where: str) -> None:
        if not isinstance(token, TimestampToken):
            raise TokenError(f"a TokenSet holds tokens, as retained or delayed, not {token!r}")
        if not token.is_live:
            raise TokenError(f"{token!r} cannot be put into {where}: it has been discarded")
        if not token._is_for_output_of(other):
            raise TokenError(f"{token!r} cannot be put into {where}: it is for another output")

    def _take(self, token: TimestampToken) -> None:
        if any(token is own for own in self._tokens):
            return
        less_equal = token.domain.less_equal
        if any(less_equal(own.time, token.time) for own in self._tokens):
            token.discard()
            return
        later = [own for own in self._tokens if less_equal(token.time, own.time)]
        self._tokens = [own for own in self._tokens if not less_equal(token.time, own.time)]
        self._tokens.append(token)
        _discard_live(later)

    def delayed(self, time: Time) -> TimestampToken:
        """Return a new token at ``time``. The set stays as it is.

        Raises:
            TokenError: ``time`` is not at or after the time of a token in the set, or not a time of this scope.
        """
        return self._before(time, "delay").delayed(time)

    def downgrade(self, frontier: Antichain | Iterable[Time]) -> None:
        """Move the tokens to the minimal times of ``frontier``; if it has none, empty the set.

        If this raises, the set does not change.

        Raises:
            TokenError: a time is not at or after the time of a token in the set, or not a time of this scope.
        """
        if not isinstance(frontier, Iterable) or (self._tokens and self._tokens[0].domain.contains(frontier)):
            raise TokenError(f"a TokenSet is downgraded to a frontier or a list of times: to [{frontier!r}]?")
        times = list(frontier)
        if times == list(self.times):
            return
        if not self._tokens:
            if times:
                raise TokenError(f"an empty TokenSet cannot be downgraded to {times!r}: it has no token to start from")
            return
        origins = {time: self._before(time, "downgrade") for time in times}
        made: list[TimestampToken] = []
        try:
            made.extend(origins[time].delayed(time) for time in Antichain(self._tokens[0].domain, times))
        except TokenError:  # a token was discarded outside of the set
            _discard_live(made)
            raise
        old, self._tokens = self._tokens, made
        _discard_live(old)

    def _before(self, time: Time, action: str) -> TimestampToken:
        for token in self._tokens:
            if token.is_live and token.domain.contains(time) and token.domain.less_equal(token.time, time):
                return token
        reason = f"it has tokens for {list(self.times)!r}" if self._tokens else "it is empty"
        raise TokenError(
            f"cannot {action} a TokenSet to {time!r}: {reason}, and a token only moves forward, to a time of its scope"
        )

    def discard(self) -> None:
        """Discard all tokens. The set may be used again."""
        tokens, self._tokens = self._tokens, []
        _discard_live(tokens)

    def __iter__(self) -> Iterator[TimestampToken]:
        return iter(tuple(self._tokens))

    def __len__(self) -> int:
        return len(self._tokens)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def __repr__(self) -> str:
        return f"TokenSet({list(self.times)!r})"


def _discard_live(tokens: Iterable[TimestampToken]) -> None:
    for token in tokens:
        if token.is_live:
            token.discard()
