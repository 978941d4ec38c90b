"""The shares of this process's file descriptors that connections may have.

A connection costs descriptors before it shows a token. So clients without a token could use up all descriptors, and
nothing else would work: no request, no subscription, no log file.
"""

import resource

_SILENT_SHARE = 16
_RESERVE_SHARE = 8
_MOST_SILENT = 128


def most_silent() -> int:
    """Return how many connections of a listener may be open at once that have not sent a request yet.

    It is a sixteenth of the descriptors that the process may open, at least 1 and at most 128.
    """
    return max(1, min(_limit() // _SILENT_SHARE, _MOST_SILENT))


def leaves_room(newest: int) -> bool:
    """Return whether an eighth of the descriptors was free when the process opened this one.

    The kernel gives a new descriptor the lowest number that is free. So all lower numbers are in use.
    """
    return newest < _limit() - _limit() // _RESERVE_SHARE


def _limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit
