"""The rounds of loops, now and in past epochs, from one report a second.

Rounds are sampled: epochs that no report sees in a loop, and last rounds between two reports, do not count. Numbers of
rounds above 99 are rounded to two digits, so that a loop has few distinct numbers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tidewheel.progress import CompiledGraph, Location, Time
from tidewheel.runtime.description.outline import Outline
from tidewheel.runtime.telemetry.graph_numbers import GraphNumbers

_MOST_EPOCHS = 50


class LoopRounds:
    """Follows the epochs in each loop, from report to report."""

    def __init__(self, compiled: CompiledGraph, outline: Outline, numbers: GraphNumbers) -> None:
        self._coordinates = [compiled.graph.nesting(location).coordinates for location in compiled.locations]
        self._scope_at = [_scope_at(compiled, outline, numbers, location) for location in compiled.locations]
        self._under_way: dict[str, dict[Any, int]] = {scope: {} for scope in self._scope_at if scope}
        self._ended: dict[str, Counter[int]] = {scope: Counter() for scope in self._under_way}
        self._taken = dict.fromkeys(self._under_way, 0)

    def look(self, live: Iterable[tuple[int, Time]]) -> dict[str, Any]:
        """Return the description of each loop, given the pointstamps in ``live``; linear."""
        if not self._under_way:
            return {}
        now: dict[str, dict[Any, int]] = {scope: {} for scope in self._under_way}
        for location, time in live:
            scope = self._scope_at[location]
            if scope:
                *epoch, number = self._coordinates[location](time)
                if isinstance(number, int):
                    rounds, key = now[scope], tuple(epoch)
                    rounds[key] = max(number, rounds.get(key, 0))
        for scope, before in self._under_way.items():
            rounds = now[scope]
            for key, number in before.items():
                if key not in rounds:
                    self._ended[scope][_two_digits(number + 1)] += 1
                    self._taken[scope] += number + 1
                elif rounds[key] < number:  # its remaining pointstamps are of an earlier round
                    rounds[key] = number
        self._under_way = now
        return {scope: self._said(scope, rounds) for scope, rounds in now.items()}

    def forget(self) -> None:
        self._under_way = {scope: {} for scope in self._under_way}

    def _said(self, scope: str, rounds: Mapping[Any, int]) -> dict[str, Any]:
        first = sorted(rounds.items(), key=lambda item: -item[1])[:_MOST_EPOCHS]
        return {
            "rounds": {repr(key[0]) if len(key) == 1 else repr(key): number for key, number in first},
            "epochs": len(rounds),
            "ended": {str(length): count for length, count in sorted(self._ended[scope].items())},
            "taken": self._taken[scope],
            "sampled": True,
        }


def _two_digits(count: int) -> int:
    """Return a count, rounded to two digits.

    >>> _two_digits(99), _two_digits(104), _two_digits(123_456)
    (99, 100, 120000)
    """
    return round(count, 2 - len(str(count)))


def _scope_at(compiled: CompiledGraph, outline: Outline, numbers: GraphNumbers, location: Location) -> str:
    scope = outline.operators[int(numbers.at(location))].scope
    depth = compiled.graph.nesting(location).depth
    while scope.nesting.depth > depth and scope.parent is not None:
        scope = scope.parent
    return scope.path
