"""The arguments of operators: for each a value that is taken, and values that are refused.

`test_every_operator` calls each operator with one wrong value after the other. Arguments that are wrong together, and
columns that a known schema does not have, are in the test files of their operators.
"""

from functools import partial
from typing import Any, Final

import pyarrow as pa

OMITTED: Final = object()
"""Stands for an argument that is not given."""


async def fetched(record: Any) -> Any:
    """Return a record, as a function does that a user means for `map_async`."""
    return record


class Fetching:
    """An object that is called as `fetched` is."""

    async def __call__(self, record: Any) -> Any:
        return record


FUNCTION: Final = (abs, 0, "n", None)
"""A function, and what is none."""

OF_A_RECORD: Final = (*FUNCTION, fetched, partial(fetched), Fetching())
"""So is one whose results no code awaits."""

KEY: Final = ("n", None, 3, (), ["n"], ("n", 1))
"""The name of a column, and what is neither that nor a function."""

KEY_OR_NONE: Final = ("n", 3, (), ["n"], ("n", 1))
OPTIONAL: Final = (OMITTED, 0)
LETTERS: Final = (OMITTED, 0, "letters")

ANYTHING: Final = {
    "sort": ("reverse",),
    "top_k": ("greatest",),
    "Collection.map": ("columns",),
    "Collection.filter": ("columns",),
    "Collection.top_k": ("greatest",),
}
"""Arguments of which any value makes sense, by operator."""

ARGUMENTS: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "map": {"function": OF_A_RECORD, "dead_letters": LETTERS},
    "filter": {"predicate": OF_A_RECORD, "dead_letters": LETTERS},
    "flat_map": {"function": OF_A_RECORD, "dead_letters": LETTERS},
    "inspect": {"function": OF_A_RECORD, "dead_letters": LETTERS},
    "inspect_batches": {"function": FUNCTION},
    "map_batches": {"function": FUNCTION, "dead_letters": LETTERS},
    "branch_when": {"predicate": FUNCTION},
    "partition": {"parts": (2, 0, -2, True, 2.0, None), "function": OF_A_RECORD},
    "exchange": {"key": KEY},
    "sample": {"fraction": (0.5, -0.1, 1.1, "0.5", None, True, float("nan")), "seed": (7, "x"), "key": KEY_OR_NONE},
    "with_schema": {"schema": (pa.schema({"n": pa.int64()}), "n", None)},
    "delay": {"function": FUNCTION},
    "on_frontier": {"function": FUNCTION},
    "for_each_epoch": {"function": FUNCTION},
    "sort": {"order": KEY_OR_NONE},
    "top_k": {"k": (1, 0, -1, 1.5, True, None, "3"), "key": KEY_OR_NONE, "order": KEY_OR_NONE},
    "deduplicate": {"key": KEY_OR_NONE, "order": KEY_OR_NONE},
    "count": {"key": KEY_OR_NONE},
    "merge": {"by": KEY},
    "aggregate": {
        "key": KEY,
        "start": (int, 0),
        "add": (max, 0, None),
        "finish": OPTIONAL,
        "combine": OPTIONAL,
        "dead_letters": LETTERS,
    },
    "accumulate": {
        "key": KEY,
        "start": (int, 0),
        "add": (max, 0, None),
        "finish": OPTIONAL,
        "dead_letters": LETTERS,
    },
    "stateful_map": {
        "key": KEY,
        "start": (int, 0, None),
        "step": (divmod, 0, None),
        "order": KEY_OR_NONE,
        "scope": ("stream", "all", None),
        "dead_letters": LETTERS,
    },
    "Collection.map": {"function": FUNCTION},
    "Collection.filter": {"predicate": FUNCTION},
    "Collection.flat_map": {"function": FUNCTION},
    "Collection.reduce": {"function": FUNCTION},
    "Collection.threshold": {"function": FUNCTION},
    "Collection.top_k": {"k": (1, 0, -1, 1.5, None)},
}
