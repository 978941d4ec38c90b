"""The filters of subscribers."""


class Multiple:
    """Wants the records of a message that can be divided, as numbers, by any of some divisors.

    Of a message without such a record it wants nothing.
    """

    def __init__(self, *of: int) -> None:
        self._of = frozenset(of)

    def of(self, message: bytes) -> bytes | None:
        """Return the message, a part of it, or None."""
        records = message.split(b",")
        wanted = [record for record in records if any(int(record) % divisor == 0 for divisor in self._of)]
        if len(wanted) == len(records):
            return message
        return b",".join(wanted) or None

    def __or__(self, other: "Multiple") -> "Multiple":
        return Multiple(*self._of, *other._of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Multiple) and other._of == self._of

    def __hash__(self) -> int:
        return hash(self._of)


FILTERS: tuple[Multiple | None, ...] = (None, Multiple(2), Multiple(3), Multiple(2, 5))
"""Those of the simulated subscribers; None lets everything through."""
