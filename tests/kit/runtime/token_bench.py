"""Tokens of an operator that is not run: they are pickled, and made again at their places."""

from dataclasses import dataclass
from typing import Any

import tidewheel as tw
from tests.laws.domains import INTEGERS
from tidewheel.progress import Time
from tidewheel.runtime.state.state_pickling import TokenPlace, pickle_state, unpickle_state
from tidewheel.runtime.tokens.token_ledger import TokenLedger
from tidewheel.runtime.worker.ports import PortOwner


@dataclass
class Output:
    """As much of an output as a token knows."""

    port: int
    location: int


class TokenBench:
    """An operator of two outputs, that begins again from what was pickled."""

    def __init__(self) -> None:
        self.owner = PortOwner("holder")
        self.owner.outputs = (Output(0, 10), Output(1, 11))  # type: ignore[assignment]
        self.ledger = TokenLedger()
        self.made: list[TokenPlace] = []

    @property
    def live(self) -> dict[Time, int]:
        """How many of the tokens that were made again are live, by time."""
        return {time: count for (_, time), count in self.ledger.tokens().items()}

    def token(self, time: int, output: int = 0, label: Any = None) -> tw.TimestampToken:
        """Return a token, which is not counted."""
        return tw.TimestampToken(self.ledger, INTEGERS, 10 + output, time, self.owner, label)

    def make(self, place: TokenPlace) -> tw.TimestampToken:
        """Make a token again, and count it."""
        self.made.append(place)
        token = self.token(place.time, place.output, place.label)
        self.ledger.record((token._stamp, 1))
        if not place.is_live:
            token.discard()
        return token

    def again(self, value: Any) -> Any:
        """Return a value that was pickled and unpickled."""
        return unpickle_state(pickle_state(value).data, self.make)
