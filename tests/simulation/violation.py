"""What a simulation raises when a promise is broken."""


class ViolationError(AssertionError):
    """A promise of the runtime that did not hold.

    Attributes:
        check: the short name of the promise; a schedule is shrunk as long as the same one is broken.
    """

    def __init__(self, check: str, message: str) -> None:
        super().__init__(message)
        self.check = check

    def __str__(self) -> str:
        return f"{self.check}: {self.args[0]}"


class TooLargeError(Exception):
    """A random dataflow multiplies its messages so much that nobody could wait for its end."""
