"""The records of a batch that a destination would not take, found by attempts with parts of the batch."""

from collections.abc import Callable

from tidewheel.batches.batches import Batch, length, take_slice


def refused_records(
    records: Batch, attempt: Callable[[Batch], object], refuses: Callable[[Exception], bool]
) -> dict[int, Exception]:
    """Return the records with which ``attempt`` fails, by place, each with its error.

    A batch that fails is halved again and again: with k such records among n, that makes O(k log n) attempts. Records
    that fail only together are not found.

    Args:
        records: the batch.
        attempt: stores nothing, and raises if the destination would not take a batch.
        refuses: tells whether an error is the fault of a record; any other is raised.

    >>> def attempt(numbers):
    ...     if any(n % 5 == 0 for n in numbers):
    ...         raise ValueError("a multiple of five")
    >>> refused_records(list(range(1, 12)), attempt, lambda error: isinstance(error, ValueError))
    {4: ValueError('a multiple of five'), 9: ValueError('a multiple of five')}
    """
    found: dict[int, Exception] = {}
    waiting = [(0, length(records))]
    while waiting:
        start, end = waiting.pop()
        try:
            attempt(take_slice(records, start, end))
        except Exception as error:
            if not refuses(error):
                raise
            if end - start == 1:
                found[start] = error
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
    return found
