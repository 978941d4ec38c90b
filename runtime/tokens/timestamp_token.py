"""Timestamp tokens: the right to send at a time on an output.

Source: seed "Timestamp tokens" (Lattuada and McSherry), section 3.
"""

from types import TracebackType
from typing import Any, Protocol, Self

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.substreams.labels import Label, Labels, MixedLabel
from tidewheel.runtime.tokens.token_ledger import Leak, TokenLedger


class TokenOutput(Protocol):
    """An output of an operator as tokens see it."""

    @property
    def location(self) -> int:
        """The number of its location."""

    @property
    def ledger(self) -> TokenLedger:
        """The ledger of its worker."""

    @property
    def port(self) -> int:
        """The number of the output."""

    @property
    def domain(self) -> TimeDomain:
        """The times of the output."""

    @property
    def operator(self) -> str:
        """The name of the operator."""

    @property
    def schedule(self) -> int:
        """The number of the operator's current call, -1 between two."""

    def new_token(self, time: Time, lender: "TokenLender", label: Label | None) -> "TimestampToken":
        """Make a token from one that ``lender`` has lent for ``time``, and count it."""


class SendingPort(Protocol):
    """An output as an operator has it; tokens use what is behind it."""

    @property
    def _running(self) -> TokenOutput: ...


class TokenLender(Protocol):
    """An input of an operator as the tokens see it that its messages lend."""

    @property
    def operator(self) -> str:
        """The name of the operator."""

    @property
    def schedule(self) -> int:
        """The number of the operator's current call, -1 between two."""

    def only_output(self) -> TokenOutput:
        """Return the operator's output if it has exactly one; raise TokenError otherwise."""

    def arrivals(self, output: TokenOutput, time: Time) -> Antichain:
        """Return the least times at which a message at ``time`` allows to send on ``output``."""

    def time_on(self, output: TokenOutput, time: Time) -> Time:
        """Return the least time at which a message at ``time`` allows to send on ``output``; there must be one."""

    def say_what_is_lent(self, output: TokenOutput, least: Antichain) -> str:
        """Say for people at which times a message lets its receiver send."""


class TimestampToken:
    """The right to send at ``time`` on one output of one operator (timely dataflow calls it a capability).

    While it is live, no frontier downstream passes its time. It must be discarded in the end: by `discard`, by leaving
    a ``with`` block, or by taking the time forward with `downgrade`. One that is collected as garbage while it is live
    is discarded and reported as a leak. May be used from any thread.
    """

    __slots__ = ("_domain", "_label", "_ledger", "_live", "_location", "_operator", "_port", "_schedule", "_time")

    def __init__(  # the worker core makes these, users never do
        self,
        ledger: TokenLedger,
        domain: TimeDomain,
        location: int,
        time: Time,
        operator: str,
        port: TokenLender | TokenOutput | None = None,
        label: Label | None = None,
    ) -> None:
        self._label = label
        self._port = port
        self._schedule = port.schedule if port is not None else -1
        self._ledger = ledger
        self._domain = domain
        self._location = location
        self._time = time
        self._operator = operator
        self._live = True

    @property
    def time(self) -> Time:
        """The time at which this token lets its holder send."""
        return self._time

    @property
    def label(self) -> Label | None:
        """The substream that this token belongs to, as (number of the declaration, key); None for none."""
        return self._label

    @property
    def key(self) -> Any:
        """The key of the substream that this token belongs to, and holds open; None for none."""
        return None if self._label is None else self._label[1]

    @property
    def stamp(self) -> tuple[int, Time]:
        """Where the token is, as (location number, time)."""
        return self._location, self._time

    @property
    def is_live(self) -> bool:
        """Whether the token has not been discarded."""
        return self._live

    @property
    def domain(self) -> TimeDomain:
        """The order of the times to which this token can be taken."""
        return self._domain

    def is_for_output_of(self, other: "TimestampToken") -> bool:
        """Tell whether both tokens are for one output of one operator, on one worker, and of one substream."""
        same_output = self._location == other._location and self._ledger is other._ledger
        return same_output and self._label == other._label

    def clone(self) -> "TimestampToken":
        """Return a second token for the same time and output. Raises TokenError after `discard`."""
        return self.delayed(self._time)

    def delayed(self, time: Time) -> "TimestampToken":
        """Return a new token for the same output at ``time``, which must not be before this token's.

        Raises:
            TokenError: ``time`` is not at or after this token's time, is not a time of this scope, or the token has
                been discarded.
        """
        with self._ledger.lock:
            self._check(time, "delay")
            token = TimestampToken(
                self._ledger, self._domain, self._location, time, self._operator, self._port, self._label
            )
            self._ledger.record(((self._location, time), 1), label=self._label)
            return token

    def downgrade(self, time: Time) -> None:
        """Take this token forward to ``time``. Raises TokenError as `delayed` does, and then changes nothing."""
        with self._ledger.lock:
            self._check(time, "downgrade")
            if time != self._time:
                self._ledger.record(((self._location, time), 1), ((self._location, self._time), -1), label=self._label)
                self._time = time

    def discard(self) -> None:
        """Give up the right to send. Raises TokenError the second time."""
        with self._ledger.lock:
            self._check_live()
            self._live = False
            self._ledger.record(((self._location, self._time), -1), label=self._label)

    def _check_live(self) -> None:
        if not self._live:
            raise TokenError(
                f"operator {self._operator!r} used a token for time {self._time!r} after it was discarded: "
                "clone() or retain() a token to keep one"
            )

    def _check(self, time: Time, action: str) -> None:
        self._check_live()
        if not self._domain.contains(time):
            raise TokenError(
                f"operator {self._operator!r} cannot {action} a token for time {self._time!r} to {time!r}: "
                f"that is no time of this scope, where times are such as {self._domain.minimum()!r}"
            )
        if not self._domain.less_equal(self._time, time):
            raise TokenError(
                f"operator {self._operator!r} cannot {action} a token for time {self._time!r} to {time!r}: "
                "a token only moves forward"
            )

    def time_on(self, output: TokenOutput) -> Time:
        """Return the time at which this token sends on ``output``; raise TokenError if it does not."""
        self._check_live()
        if output.location != self._location or output.ledger is not self._ledger:
            raise TokenError(
                f"operator {output.operator!r} used a token of another output for output {output.port}: "
                "a token lets its holder send on one output only; retain one for each"
            )
        return self._time

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self.discard()

    def __del__(self) -> None:
        if not getattr(self, "_live", False):
            return
        self._live = False
        change = ((self._location, self._time), -1)
        if self._schedule >= 0 and self._port is not None and self._port.schedule == self._schedule:
            # Made and dropped in one call, as by dict.setdefault or send(token.delayed(...)): as good as never kept.
            self._ledger.record(change, label=self._label)
        else:
            self._ledger.record_leak(Leak(self._operator, self._time), change, self._label)

    def __reduce__(self) -> Any:
        raise TokenError(
            f"a token of operator {self._operator!r} cannot be copied or sent to another process: send the records, "
            "or clone() the token within the worker"
        )

    def __repr__(self) -> str:
        state = "" if self._live else ", discarded"
        return f"TimestampToken(time={self._time!r}, operator={self._operator!r}{state})"


class LentToken:
    """The token that an input message lends for each output, until the operator returns.

    It sends on any output that its input can reach, at the message's time; `retain` makes a token of one's own of it.
    """

    __slots__ = ("_input", "_schedule", "label", "time")

    def __init__(self, lender: TokenLender, schedule: int, time: Time, label: Labels | None = None) -> None:
        self._input = lender
        self._schedule = schedule
        self.time = time
        self.label = label

    @property
    def key(self) -> Any:
        """The key of the substream that the message belongs to; None for none."""
        return None if self.label is None else self._one_label()[1]

    def of(self, label: Label) -> "LentToken":
        """Return the token that the message lends for the records of one of its substreams."""
        return LentToken(self._input, self._schedule, self.time, label)

    def _one_label(self) -> Label:
        if isinstance(self.label, MixedLabel):
            raise TokenError(f"operator {self._input.operator!r} used a token of several substreams as that of one")
        assert self.label is not None, "it was asked before"
        return self.label

    def retain(self, output: SendingPort | None = None) -> TimestampToken:
        """Return a token at this message's time for ``output``, by default the only one.

        Raises:
            TokenError: the operator has returned since, has several outputs and none is named, or the input does not
                reach that output.
        """
        chosen = output._running if output is not None else self._input.only_output()
        return chosen.new_token(self.time_on(chosen), self._input, None if self.label is None else self._one_label())

    def delayed(self, time: Time, output: SendingPort | None = None) -> TimestampToken:
        """Return a token at ``time`` for ``output``, by default the only one.

        Raises:
            TokenError: ``time`` is not at or after a time at which this message lets its receiver send there, or is no
                time of that output's scope; and as `retain` does.
        """
        chosen = output._running if output is not None else self._input.only_output()
        self._check_lent()
        least = self._input.arrivals(chosen, self.time)
        if not (chosen.domain.contains(time) and least.less_equal(time)):
            raise TokenError(
                f"operator {self._input.operator!r} cannot delay the token of a message at time {self.time!r} to "
                f"{time!r} on output {chosen.port}: {self._input.say_what_is_lent(chosen, least)}, at times "
                f"like {chosen.domain.minimum()!r}"
            )
        return chosen.new_token(time, self._input, None if self.label is None else self._one_label())

    def _check_lent(self) -> None:
        if self._schedule != self._input.schedule:
            raise TokenError(
                f"operator {self._input.operator!r} used the token lent by a message at time {self.time!r} after it "
                "returned: retain() it while the message is at hand"
            )

    def time_on(self, output: TokenOutput) -> Time:
        """Return the least time at which this message lets its receiver send on ``output``."""
        self._check_lent()
        return self._input.time_on(output, self.time)

    def __reduce__(self) -> Any:
        raise TokenError(
            f"a token lent to operator {self._input.operator!r} cannot be copied or sent to another process: "
            "send the records, or retain() the token within the worker"
        )

    def __repr__(self) -> str:
        return f"LentToken(time={self.time!r}, operator={self._input.operator!r})"
