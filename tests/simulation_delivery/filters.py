"""The filters of subscribers."""


class Multiple:
    """Wants messages that are divisible, as numbers; of others nothing."""

    def __init__(self, of: int) -> None:
        self._of = of

    def of(self, message: bytes) -> bytes | None:
        """Return the message, or None."""
        return message if int(message) % self._of == 0 else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Multiple) and other._of == self._of

    def __hash__(self) -> int:
        return hash(self._of)
