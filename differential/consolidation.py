"""The sum of updates without an arrangement."""

from collections.abc import Iterator

from tidewheel.differential.codes import Codes, overflow_of
from tidewheel.differential.packing import CountOverflowError, constant
from tidewheel.differential.records import Array, array_of, gathered
from tidewheel.differential.spine import Spine
from tidewheel.differential.updates import at_time, concatenate, drained, portions


def consolidated(arrays: list[Array]) -> Iterator[Array]:
    """Add up the updates of several arrays; yield each record with a diff other than 0 once; this empties the list.

    >>> from tidewheel.differential.records import decode, encode
    >>> (array,) = consolidated([encode(["a", "b"]), encode(["a", "b"], [1, -1])])
    >>> decode(array), array["diff"].tolist()
    (['a'], [2])
    """
    if len({array.dtype.names for array in arrays}) > 1:
        arrays = [array_of(*gathered(arrays))]
    keys, values, spine, count = Codes(), Codes(), Spine(1), 0
    for _, part in portions(((0,), array) for array in drained(arrays)):
        (key, *others), diffs = gathered(part)
        count = 1 + len(others)
        codes = keys.encode([key], lambda change: spine.translate(keys=change))
        rest = values.encode(others, lambda change: spine.translate(values=change)) if others else constant(0, len(key))
        updates = at_time(codes, rest, diffs, (0,))
        try:
            spine.insert(updates)
        except CountOverflowError as error:
            had = [batch.updates for batch in spine.batches]
            raise overflow_of(concatenate([*had, updates], 1), keys, values if others else None) from error
    batches = spine.total()
    spine.let_go(None)
    for batch in drained(batches):
        columns = [keys.decode(batch.column(0))[0], values.decode(batch.values())[0]]
        yield array_of(columns[:count], batch.column(-1))
