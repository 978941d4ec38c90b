"""Numbers, ages and names as short texts for people."""

import re

_COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_EPOCH = re.compile(r"\(*(-?\d+)(?=[,)]|$)")


def plain(text: object) -> str:
    r"""Return a text without terminal control characters, as in an operator's name.

    >>> plain("red \x1b[31m\n")
    'red ?[31m?'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in str(text))


def count_text(count: float | None) -> str:
    """Return a count or a rate in few characters; empty if it is unknown.

    >>> [count_text(one) for one in (0, 0.25, 999, 12_345, 3e9, None)]
    ['0', '0.2', '999', '12.3k', '3.0G', '']
    """
    if count is None:
        return ""
    for unit, name in _COUNTS:
        if count >= unit:
            return f"{count / unit:.1f}{name}"
    return f"{count:.1f}" if 0 < count < 10 and count != int(count) else f"{count:.0f}"


def share_text(share: float | None) -> str:
    """Return a share in percent; empty if it is unknown.

    >>> share_text(0.256), share_text(None)
    ('26%', '')
    """
    return "" if share is None else f"{100 * share:.0f}%"


def size_text(size: int) -> str:
    """Return a number of bytes in a suitable unit.

    >>> size_text(999), size_text(12_345_678)
    ('999 B', '12.3 MB')
    """
    return next((f"{size / unit:.1f} {name}" for unit, name in _SIZES if size >= unit), f"{size} B")


def age_text(seconds: float) -> str:
    """Return a duration in one unit.

    >>> age_text(0.2), age_text(75), age_text(100_000)
    ('0 s', '1 min', '1 d')
    """
    return next((f"{int(seconds // unit)} {name}" for unit, name in _AGES if seconds >= unit), "0 s")


def epoch_of(time: str) -> int | None:
    """Return the epoch of a time's text: its outermost coordinate, if that is a whole number.

    >>> epoch_of("3"), epoch_of("((4, 2), 0)"), epoch_of("'monday'"), epoch_of("3.5")
    (3, 4, None, None)
    """
    found = _EPOCH.match(time)
    return None if found is None else int(found[1])
