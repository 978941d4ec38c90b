"""A broken promise, as a simulation raises it."""

import traceback
from collections.abc import Callable


class ViolationError(AssertionError):
    """A promise that did not hold.

    Attributes:
        check: the short name of the promise; a schedule is shrunk as long as the same one is broken.
    """

    def __init__(self, check: str, message: str) -> None:
        super().__init__(message)
        self.check = check

    def __str__(self) -> str:
        return f"{self.check}: {self.args[0]}"


class TooLargeError(Exception):
    """A random dataflow multiplies its messages without measure, so the simulation is given up."""


def broken_promise(run: Callable[[], object]) -> ViolationError | None:
    """Run a simulation and return the promise that it broke, None if it kept all.

    Any other error that the code under test raises is a violation named ``raised``, with its traceback. A
    `TooLargeError` is no violation, and goes on to the caller.
    """
    try:
        run()
    except ViolationError as violation:
        return violation
    except TooLargeError:
        raise
    except Exception as error:  # noqa: BLE001 - the simulation looks for whatever a core raises
        if isinstance(error.__cause__, ViolationError):
            return error.__cause__
        return ViolationError("raised", "".join(traceback.format_exception(error)))
    return None
