"""The errors of the progress layer, and the base of all errors of tidewheel.

Errors are picklable: they cross from a worker to the driver. An error redacts its text when it is made, since a quoted
argument may contain a password.
"""

from typing import Any

from tidewheel.progress.redaction import redacted

_LONGEST_LINE, _KEPT_FIRST, _KEPT_LAST = 2000, 1200, 600


class TidewheelError(Exception):
    """The base of every error that tidewheel raises on purpose.

    Lines of more than 2,000 characters are shortened in the middle, so that the remedy at the end stays.
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
    """The description of a dataflow is wrong; raised before anything runs."""


class ProtocolError(TidewheelError):
    """A peer broke the protocol: a message was lost, a count is impossible, or an incarnation is unknown."""
