"""Groups of rows, made by Arrow in the calling thread.

Do not rely on the order of groups. Arrow orders them by their first rows only if no two keys collide in its hash table.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


def group(
    keys: "Sequence[tuple[str, pa.ChunkedArray]]", columns: "Sequence[tuple[str, pa.ChunkedArray | None, str]]"
) -> "pa.Table":
    """Return a table with a row for each group.

    >>> import pyarrow as pa
    >>> words = pa.chunked_array([["a", "b", "a"]])
    >>> group([("word", words)], [("n", None, "count_all"), ("first", words, "min")]).to_pydict()
    {'word': ['a', 'b'], 'n': [2, 1], 'first': ['a', 'b']}
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    given = [column for _, column in keys] + [column for _, column, _ in columns if column is not None]
    table = pa.table(given, names=[str(number) for number in range(len(given))])
    if any(pa.types.is_dictionary(column.type) for _, column in keys):
        table = table.unify_dictionaries()
    names = iter(table.column_names)
    by = [next(names) for _ in keys]
    # Null counts as a distinct value, so that no list is empty.
    options = {"distinct": pc.CountOptions(mode="all")}
    asked = [
        ([] if column is None else next(names), function, options.get(function)) for _, column, function in columns
    ]
    made = table.group_by(by, use_threads=False).aggregate(asked)
    return made.rename_columns([*(name for name, _ in keys), *(name for name, _, _ in columns)])


def group_numbers(groups: "pa.ChunkedArray") -> "npt.NDArray[np.int64]":
    """Return the number of each row's group, given the row numbers of each group.

    >>> import pyarrow as pa
    >>> group_numbers(pa.chunked_array([[[0, 2], [1]]]))
    array([0, 1, 0])
    """
    import numpy as np
    import pyarrow.compute as pc

    rows = pc.list_flatten(groups).to_numpy()
    numbers = np.empty(len(rows), dtype=np.int64)
    numbers[rows] = np.repeat(np.arange(len(groups)), pc.list_value_length(groups).to_numpy())
    return numbers


def group_lists(numbers: "npt.NDArray[np.int64]", lists: "pa.ChunkedArray", function: str) -> "pa.ChunkedArray":
    """Return, for each group, ``function`` of all values in its lists, none of which may be empty.

    >>> import numpy as np
    >>> import pyarrow as pa
    >>> group_lists(np.array([0, 1, 0]), pa.chunked_array([[[1, 2], [3], [2]]]), "count_distinct").to_pylist()
    [2, 1]
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    owners = np.repeat(numbers, pc.list_value_length(lists).to_numpy())
    made = group([("group", pa.chunked_array([owners]))], [("value", pc.list_flatten(lists), function)])
    return made.column("value").take(np.argsort(made.column("group").to_numpy()))


def with_lists(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Return a column with equal values, of a type that Arrow can put into lists."""
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_dictionary(kind):
        return column.cast(kind.value_type)
    if kinds.is_string_view(kind):
        return column.cast("large_string")
    return column.cast("large_binary") if kinds.is_binary_view(kind) else column


def may_go_round(column: "pa.ChunkedArray") -> bool:
    """Tell whether the sum of a column of integers may exceed 64 bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        return False
    ends = pc.min_max(column).as_py()
    most: int = max(abs(ends["min"] or 0), abs(ends["max"] or 0))
    return most * len(column) >= 1 << 63
