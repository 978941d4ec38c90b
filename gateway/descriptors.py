"""The limit on the file descriptors of this process that connections may use.

A connection uses descriptors before it sends a token, so clients without a token could use up all descriptors.
"""

import resource

_SILENT_SHARE = 16
_RESERVE_SHARE = 8
_MOST_SILENT = 128


def most_silent() -> int:
    """Return how many connections without a request a listener may have: 1/16 of the descriptors, 1 to 128."""
    return max(1, min(_limit() // _SILENT_SHARE, _MOST_SILENT))


def leaves_room(newest: int) -> bool:
    """Tell whether 1/8 of the descriptors was free when the process opened the descriptor ``newest``.

    The kernel assigns the lowest free number, so all lower numbers are in use.
    """
    return newest < _limit() - _limit() // _RESERVE_SHARE


def _limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit
