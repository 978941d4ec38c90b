"""The keys of ``tidewheel top``, and the choices made with them."""

from dataclasses import dataclass, replace

ORDER_KEYS = {"g": "graph", "n": "name", "r": "rate", "b": "busy", "l": "lag", "u": "queue"}
"""The orders of the operators, by the key that chooses each."""

_NEXT_JOB = {"\t", "j"}
_QUIT = {"q", "Q", "\x04"}
_UP, _DOWN = {"\x1b[A", "\x1bOA"}, {"\x1b[B", "\x1bOB"}


@dataclass(frozen=True, slots=True)
class Choices:
    """The user's choices of what the terminal shows.

    Attributes:
        order: the order of operators, one of `ORDERS`.
    """

    order: str = "graph"
    is_reversed: bool = False
    first: int = 0
    wants_next: bool = False
    is_over: bool = False

    def after(self, key: str) -> "Choices":
        """Return the choices after a key; "" and unknown keys change nothing."""
        past = replace(self, wants_next=key in _NEXT_JOB, is_over=key in _QUIT)
        if past.wants_next:
            return replace(past, first=0)
        if key in _DOWN:
            return replace(past, first=self.first + 1)
        if key in _UP:
            return replace(past, first=max(0, self.first - 1))
        order = ORDER_KEYS.get(key)
        if order is None:
            return past
        return replace(past, order=order, is_reversed=order == self.order and not self.is_reversed, first=0)
