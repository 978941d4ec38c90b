"""Timestamp tokens: the right to send at a time on an output.

Source: seed "Timestamp tokens" (Lattuada and McSherry), section 3.
"""

from typing import TYPE_CHECKING, Any, Self

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.labels import Label, Labels, MixedLabel
from tidewheel.runtime.tokens.token_ledger import TokenLedger

if TYPE_CHECKING:
    from tidewheel.runtime.worker.ports import OutputPort, PortOwner, RunningInput, RunningOutput


class TimestampToken:
    """The right to send at ``time`` on one output of one operator (a capability in timely dataflow).

    While the token is live, no frontier downstream passes its time. Discard each token in the end, by `discard` or a
    ``with`` block. Tokens are thread-safe.

    If an operator drops a live token, that is a leak, which fails the job; see ``on_leak`` of `RuntimeConfig`. Two
    kinds of tokens may be dropped in the call that made them. One kind is superfluous, since the operator holds an
    older token for the same time: ``held.setdefault(lent.time, (lent.retain(), []))``. The other kind comes from
    `delayed` and has sent: ``output.send(token.delayed(time), batch)``.

    Attributes:
        domain: the order of the times to which this token can move.
        label: the token's substream, as (number of the declaration, key); None if it has none.
    """

    __slots__ = ("_ledger", "_live", "_owner", "_sent", "_stamp", "domain", "label")

    def __init__(  # the worker core makes these, users never do
        self,
        ledger: TokenLedger,
        domain: TimeDomain,
        location: int,
        time: Time,
        owner: "PortOwner",
        label: Label | None = None,
    ) -> None:
        self._owner = owner
        self._ledger = ledger
        self._stamp = (location, time)  # by its identity, the ledger tells which tokens were made in the same call
        self._sent: bool | None = False  # whether the token has sent; None where that does not matter
        self._live = True
        self.domain = domain
        self.label = label

    @property
    def time(self) -> Time:
        """The time at which this token can send."""
        return self._stamp[1]

    @property
    def _output(self) -> int:
        return next(port.port for port in self._owner.outputs if port.location == self._stamp[0])

    @property
    def key(self) -> Any:
        """The key of the substream that this token holds open; None if it has none."""
        return None if self.label is None else self.label[1]

    @property
    def is_live(self) -> bool:
        """True until the token is discarded."""
        return self._live

    def _is_for_output_of(self, other: "TimestampToken") -> bool:
        same_output = self._stamp[0] == other._stamp[0] and self._ledger is other._ledger
        return same_output and self.label == other.label

    def clone(self) -> "TimestampToken":
        """Return a second token for the same time and output; raise TokenError after `discard`."""
        return self.delayed(self.time)

    def delayed(self, time: Time) -> "TimestampToken":
        """Return a new token for the same output at ``time``, which must not be before this token's.

        Raises:
            TokenError: ``time`` is not at or after this token's time, is not a time of this scope, or the token has
                been discarded.
        """
        with self._ledger.lock:
            time = self._checked(time, "delay")
            token = TimestampToken(self._ledger, self.domain, self._stamp[0], time, self._owner, self.label)
            self._ledger.record((token._stamp, 1), label=self.label)
            return token

    def downgrade(self, time: Time) -> None:
        """Move this token to ``time``. Raises as `delayed` does; the token then stays where it is."""
        with self._ledger.lock:
            time = self._checked(time, "downgrade")
            if time != self._stamp[1]:
                before, self._stamp = self._stamp, (self._stamp[0], time)
                self._ledger.record((self._stamp, 1), (before, -1), label=self.label)

    def discard(self) -> None:
        """Give up the right to send. A second call raises TokenError."""
        with self._ledger.lock:
            self._check_live()
            self._live = False
            self._ledger.record((self._stamp, -1), label=self.label)

    def _check_live(self) -> None:
        if not self._live:
            raise TokenError(self._discarded)

    @property
    def _discarded(self) -> str:
        return (
            f"operator {self._owner.name!r} used a token for time {self.time!r} after it was discarded: "
            "clone() or retain() a token to keep one"
        )

    def _checked(self, time: Time, action: str) -> Time:
        self._check_live()
        if not self.domain.contains(time):
            raise TokenError(
                f"operator {self._owner.name!r} cannot {action} a token for time {self.time!r} to {time!r}: "
                f"that is no time of this scope, where times are {self.domain.describe()}"
            )
        if not self.domain.less_equal(self.time, time):
            raise TokenError(
                f"operator {self._owner.name!r} cannot {action} a token for time {self.time!r} to {time!r}: "
                "a token only moves forward"
            )
        return time if type(time) is int else self.domain.plain(time)

    def _time_on(self, output: "RunningOutput") -> Time:
        if not self._live:
            output.refuse(self.time, self._discarded)
        location, time = self._stamp
        if output.location != location or output.ledger is not self._ledger:
            output.refuse(
                time,
                f"operator {output.owner.name!r} used a token of another output for output {output.port}: "
                "a token lets its holder send on one output only; retain one for each",
            )
        if self._sent is False:
            self._sent = True
        return time

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if error is not None and self._ledger.is_stepping:
            self._owner.time = self.time  # errors name this time
        if self._live:
            self.discard()

    def __del__(self) -> None:
        if not getattr(self, "_live", False):
            return
        self._live = False
        self._ledger.record_drop(self._stamp, self.label, self._owner.name, has_sent=self._sent is True)

    def __reduce__(self) -> Any:
        raise TokenError(
            f"a token of operator {self._owner.name!r} cannot be copied or sent to another process: send the records, "
            "or clone() the token within the worker"
        )

    def __repr__(self) -> str:
        state = "" if self._live else ", discarded"
        return f"TimestampToken(time={self.time!r}, operator={self._owner.name!r}{state})"


class LentToken:
    """The token that an input message lends for each output, until the operator returns.

    Send with it at the message's time, on outputs that the input can reach; `retain` makes a lasting token.
    """

    __slots__ = ("_call", "_input", "label", "time")

    def __init__(self, lender: "RunningInput", call: int, time: Time, label: Labels | None = None) -> None:
        self._input = lender
        self._call = call
        self.time = time
        self.label = label

    @property
    def key(self) -> Any:
        """The key of the message's substream; None if it has none."""
        label = self._own_label()
        return None if label is None else label[1]

    def _of(self, label: Label) -> "LentToken":
        return LentToken(self._input, self._call, self.time, label)

    def _own_label(self) -> Label | None:
        if isinstance(self.label, MixedLabel):
            raise TokenError(f"operator {self._input.owner.name!r} used a token of several substreams as that of one")
        return self.label

    def retain(self, output: "OutputPort | None" = None) -> TimestampToken:
        """Return a lasting token at this message's time for ``output``, by default the only one.

        Raises:
            TokenError: the operator has returned, it has several outputs and ``output`` is not given, or the input does
                not reach the output.
        """
        chosen = output._running if output is not None else self._only_output()
        token = chosen.new_token(self._time_on(chosen), self._own_label())
        token._sent = None  # the holder keeps it on purpose: dropping it is a leak even after a send
        return token

    def delayed(self, time: Time, output: "OutputPort | None" = None) -> TimestampToken:
        """Return a token at ``time`` for ``output``, by default the only one.

        Raises:
            TokenError: ``time`` is not at or after a time that this message allows at the output, or is not a time of
                the output's scope. Also for the reasons of `retain`.
        """
        chosen = output._running if output is not None else self._only_output()
        self._check_lent()
        least = self._arrivals(chosen)
        if not (chosen.domain.contains(time) and least.less_equal(time)):
            raise TokenError(
                f"operator {self._input.owner.name!r} cannot delay the token of a message at time {self.time!r} to "
                f"{time!r} on output {chosen.port}: {self._what_is_lent(chosen, least)}, at times "
                f"that are {chosen.domain.describe()}"
            )
        return chosen.new_token(chosen.domain.plain(time), self._own_label())

    def _check_lent(self) -> None:
        if self._call != self._input.owner.call:
            name = self._input.owner.name
            self._input.host.ledger.refuse(
                name,
                self.time,
                f"operator {name!r} used the token lent by a message at time {self.time!r} after it returned: "
                "retain() it while the message is at hand",
            )

    def _time_on(self, output: "RunningOutput") -> Time:
        lender, time = self._input, self.time
        owner = lender.owner
        self._check_lent()
        if output in owner.outputs:
            paths = lender.paths[output.port]
            if len(paths) == 1 and paths[0].is_identity:
                return time
        least = self._arrivals(output)
        if len(least) == 1:
            return next(iter(least))
        raise TokenError(
            f"operator {owner.name!r}: a message at time {time!r} on input {lender.port} lends no one token for "
            f"output {output.port}: {self._what_is_lent(output, least)}"
            + (": say which, delayed(time, output)" if len(least) else "")
        )

    def _only_output(self) -> "RunningOutput":
        owner = self._input.owner
        if len(owner.outputs) != 1:
            raise TokenError(
                f"operator {owner.name!r} has {len(owner.outputs)} outputs: say for which one the token is to be kept, "
                "with retain(output), delayed(time, output) or notify_at(token, output)"
            )
        return owner.outputs[0]

    def _arrivals(self, output: "RunningOutput") -> Antichain:
        owner = self._input.owner
        if output not in owner.outputs:
            raise TokenError(
                f"operator {output.owner.name!r} used a token lent to operator {owner.name!r}: "
                "a token lets its holder send on its own output only"
            )
        arriving = (path.results_in(self.time) for path in self._input.paths[output.port])
        return Antichain(output.domain, (arrival for arrival in arriving if arrival is not None))

    def _what_is_lent(self, output: "RunningOutput", least: Antichain) -> str:
        if len(least):
            return f"it lets its receiver send there from {' or '.join(map(repr, least))} on"
        if self._input.paths[output.port]:
            return "by the operator's summaries nothing passes at this time, as at the greatest time of a scope"
        return "by the operator's summaries nothing at that input comes out there"

    def __reduce__(self) -> Any:
        raise TokenError(
            f"a token lent to operator {self._input.owner.name!r} cannot be copied or sent to another process: "
            "send the records, or retain() the token within the worker"
        )

    def __repr__(self) -> str:
        return f"LentToken(time={self.time!r}, operator={self._input.owner.name!r})"


TOKENS = (TimestampToken, LentToken)
"""The types of tokens that operators send with.

In a call of `isinstance`, a union would be made anew for each message.
"""
