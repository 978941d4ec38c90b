"""The map_async operator: what coroutines return, at the time of the record that each was called for.

A time stays open, and a substream at that time, by the token that the operator's notificator keeps for it, until its
last call is done. The operator reads no further while as many records wait as may be under way, so that what has yet to
come waits at its input, where it counts as in flight.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from copy import copy
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from tidewheel.operators.coroutines.async_calls import AsyncCalls, CallPolicy, Outcome
from tidewheel.progress import Time
from tidewheel.runtime import Build, InputPort, OutputPort, Schedule
from tidewheel.runtime.substreams.labels import Label, MixedLabel
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.transport.batches import records

_Place: TypeAlias = tuple[Time, Label | None]
"""The time of a record, and the substream that it belongs to."""


def build_map_async(function: Callable[[Any], Awaitable[Any]], policy: CallPolicy, *, ordered: bool) -> Build:
    """Return the build function of an operator that calls ``function`` for each record."""

    def build(context: OperatorContext) -> Schedule:
        own = copy(function) if hasattr(function, "__aenter__") else function
        name = f"tidewheel-async-{context.name}-{context.worker}"
        calls = AsyncCalls(name, own, policy, context.activate)
        context.on_close(calls.close)
        return _MapAsync(context, calls, policy.concurrency, ordered=ordered).schedule

    return build


class _MapAsync:
    """One worker's share of the operator.

    The records that were read and whose results were not sent are its state, by number in the order in which they came.
    """

    def __init__(self, context: OperatorContext, calls: AsyncCalls, concurrency: int, *, ordered: bool) -> None:
        self._context = context
        self._calls = calls
        self._concurrency = concurrency
        self._ordered = ordered
        self._tokens = context.notificator()
        self._pending: dict[int, tuple[_Place, Any]] = context.state("pending", dict)
        self._left = Counter(place for place, _ in self._pending.values())
        self._arrived: dict[int, Any] = {}
        self._next = max(self._pending, default=-1) + 1
        self._next_to_send = min(self._pending, default=self._next)
        self._new = [(number, record) for number, (_, record) in self._pending.items()]

    def schedule(self, input: InputPort, output: OutputPort) -> None:
        """Send what has come, read what there is room for, and have it called."""
        self._send(self._results(self._calls.take()), output)
        self._read(input)
        if self._new:
            self._calls.submit(self._new)
            self._new = []
        if self._pending:
            self._context.expect_activation()

    def _read(self, input: InputPort) -> None:
        while len(self._pending) < self._concurrency and (message := next(iter(input), None)) is not None:
            lent, batch = message
            assert not isinstance(lent.label, MixedLabel), "messages are divided"
            place = lent.time, lent.label
            self._tokens.notify_at(lent)
            fresh = list(enumerate(records(batch), start=self._next))
            self._next += len(fresh)
            self._left[place] += len(fresh)
            self._pending.update((number, (place, record)) for number, record in fresh)
            self._new += fresh

    def _results(self, outcomes: list[Outcome]) -> Iterator[tuple[_Place, Any]]:
        """Yield (place, result) of what is to be sent now; raise what a call has raised."""
        for outcome in outcomes:
            number, error = outcome.number, outcome.error
            if error is not None:
                if number is not None:
                    instance_of(self._context).work_at(self._pending[number][0][0])
                raise error
            assert number is not None, "what has no number has an error"
            if self._ordered:
                self._arrived[number] = outcome.result
            else:
                yield self._pending.pop(number)[0], outcome.result
        while self._next_to_send in self._arrived:
            place, _ = self._pending.pop(self._next_to_send)
            yield place, self._arrived.pop(self._next_to_send)
            self._next_to_send += 1

    def _send(self, results: Iterable[tuple[_Place, Any]], output: OutputPort) -> None:
        for place, batch in self._batches(results):
            token = self._tokens.take(*place)
            output.send(token, batch)
            self._left[place] -= len(batch)
            if self._left[place]:
                self._tokens.notify_at(token)
            else:
                del self._left[place]
                token.discard()

    def _batches(self, results: Iterable[tuple[_Place, Any]]) -> Iterable[tuple[_Place, list[Any]]]:
        """Return as few batches as there can be: one for each place or, in order, for each run of one place."""
        if self._ordered:
            return [(place, [result for _, result in run]) for place, run in groupby(results, itemgetter(0))]
        batches: dict[_Place, list[Any]] = {}
        for place, result in results:
            batches.setdefault(place, []).append(result)
        return batches.items()
