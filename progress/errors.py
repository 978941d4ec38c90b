"""The errors of the progress layer, and the root of every error that tidewheel raises on purpose.

An error's message says what was wrong, where, and what to do about it. Errors are picklable: they cross from a worker
to the driver. Their texts are redacted as they are made: an argument of the user's that they quote may have a password.
"""

from typing import Any

from tidewheel.progress.redaction import redacted

_LONGEST_LINE, _KEPT_FIRST, _KEPT_LAST = 2000, 1200, 600


class TidewheelError(Exception):
    """The base of every error that tidewheel raises on purpose.

    A message shows the value that was wrong, which may be of any size. Of a line longer than 2,000 characters the error
    keeps the beginning and the end, where the remedy stands.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*(_shortened(redacted(arg)) if isinstance(arg, str) else arg for arg in args))


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_LINE:
        return text
    return "\n".join(
        line
        if len(line) <= _LONGEST_LINE
        else f"{line[:_KEPT_FIRST]} [{len(line) - _KEPT_FIRST - _KEPT_LAST:,} characters left out] {line[-_KEPT_LAST:]}"
        for line in text.split("\n")
    )


class GraphError(TidewheelError):
    """The description of a dataflow is wrong; raised while it is being built, before anything runs."""


class ProtocolError(TidewheelError):
    """A peer broke the protocol: a lost message, an impossible count, a foreign incarnation."""
