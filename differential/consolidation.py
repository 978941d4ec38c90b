"""The sum of updates, without arrangements."""

from collections.abc import Sequence

from tidewheel.differential.codes import Codes
from tidewheel.differential.records import Array, array_of, gathered
from tidewheel.differential.updates import summed


def consolidated(arrays: Sequence[Array]) -> Array:
    """Return the sum of the updates of several arrays, at least one: each record once, none with the diff 0.

    >>> from tidewheel.differential.records import decode, encode
    >>> array = consolidated([encode(["a", "b"]), encode(["a", "b"], [1, -1])])
    >>> decode(array), array["diff"].tolist()
    (['a'], [2])
    """
    columns, diffs = gathered(arrays)
    codes = [Codes() for _ in columns]
    *rows, sums = summed([code.encode([one]) for code, one in zip(codes, columns, strict=True)], diffs)
    return array_of([code.decode(row)[0] for code, row in zip(codes, rows, strict=True)], sums)
