"""The conditions that simulated subscribers have; records are numbers."""

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from tidewheel.pubsub.messages.delivery_options import Where

Condition: TypeAlias = Literal["all", "even", "few", "none", "each", "raises"]
"""Without a condition; some records, few, none; each one, by a condition; and a condition that fails now and then."""


def is_even(record: int) -> bool:
    return record % 2 == 0


def is_one_of_few(record: int) -> bool:
    return record % 5 == 0


def is_none(record: int) -> bool:
    return record < 0


def is_any(record: int) -> bool:
    return record >= 0


def raises(record: int) -> bool:
    if record % 11 == 7:
        raise ValueError("this condition fails on purpose")
    return record % 3 > 0


_FUNCTIONS: dict[Condition, Callable[[int], bool]] = {
    "even": is_even,
    "few": is_one_of_few,
    "none": is_none,
    "each": is_any,
    "raises": raises,
}
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
WHERES: dict[Condition, Where] = {name: Where(function) for name, function in _FUNCTIONS.items()}
"""One object for each condition, since making one takes longer than a simulation has."""


def wanted(condition: Condition, records: list[int]) -> list[int]:
    """Return the records of a batch that meet a condition; none if it fails for one of them."""
    if condition == "all":
        return records
    try:
        return [record for record in records if _FUNCTIONS[condition](record)]
    except ValueError:
        return []


def fails(condition: Condition, records: list[int]) -> bool:
    """Tell whether a condition fails for a batch."""
    return condition == "raises" and any(record % 11 == 7 for record in records)
