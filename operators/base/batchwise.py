"""Operators that treat each batch by itself and send the result at once, at its time or a later one.

They hold no records and never ask for a frontier. A delayed record is sent at once, with a token for its later time. So
an operator downstream waits for the record when it waits for that time.

Source: timely dataflow's ``delay``, which holds records until their new time instead.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from reprlib import repr as shortened
from typing import Any, TypeAlias

from tidewheel.batches.batches import Batch, records, scatter
from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_input, running_output

Parts: TypeAlias = Callable[[Batch, Time, int], Iterable[Batch | None]]
"""Returns the batch to send on each output, or None to send nothing. The arguments are a batch, its time and the
worker."""

Delayed: TypeAlias = Callable[[Batch, Time], Iterable[tuple[Time, Batch]]]
"""Returns the parts of a batch as pairs (time at which to send, part). The arguments are the batch and the least
time."""


def build_batchwise(parts: Parts) -> Build:
    def build(context: OperatorContext) -> Schedule:
        def schedule(input: InputPort, *outputs: OutputPort) -> None:
            for lent, batch in input:
                for output, part in zip(outputs, parts(batch, lent.time, context.worker), strict=True):
                    if part is not None:
                        output.send(lent, part)

        return schedule

    return build


def by_time(predicate: Callable[[Time], object]) -> Parts:
    """Return a function that sends a batch to the first output if ``predicate(time)`` is true, else to the second."""
    return lambda batch, time, worker: (batch, None) if predicate(time) else (None, batch)


def build_pass(context: OperatorContext) -> Schedule:
    """Build an operator that forwards batches from any number of inputs; its summaries change their times."""

    def schedule(*ports: InputPort | OutputPort) -> None:
        *inputs, output = ports
        assert isinstance(output, OutputPort)
        for port in inputs:
            assert isinstance(port, InputPort)
            for token, batch in running_input(port).whole():
                output.send(token, batch)

    return schedule


def build_unlabelled(context: OperatorContext) -> Schedule:
    def schedule(input: InputPort, output: OutputPort) -> None:
        for token, batch in running_input(input).whole():
            running_output(output).send_labelled(token, batch, None)

    return schedule


def build_delay(name: str, delayed: Delayed) -> Build:
    """Build an operator that sends parts of each batch at the times that ``delayed`` returns."""

    def schedule(input: InputPort, output: OutputPort) -> None:
        running = running_output(output)
        for lent, batch in input:
            now = lent._time_on(running)
            parts = list(delayed(batch, now))
            for time, part in parts:
                _check_later(name, running.domain, now, time, part)
            for time, part in parts:
                if time == now:
                    output.send(lent, part)
                else:
                    with lent.delayed(time) as token:
                        output.send(token, part)

    return lambda context: schedule


def by_record(times: Callable[[list[Any], Time], Sequence[Time]]) -> Delayed:
    """Return a function that delays records; ``times(records, time)`` returns the new time of each."""

    def delayed(batch: Batch, now: Time) -> Iterable[tuple[Time, Batch]]:
        rows = records(batch)
        each = times(rows, now)
        try:
            numbers = {time: number for number, time in enumerate(dict.fromkeys(each))}
        except TypeError:  # an unhashable value is no time: the caller raises the error
            return [(time, [record]) for time, record in zip(each, rows, strict=True)]
        return zip(numbers, scatter(batch, [numbers[time] for time in each], len(numbers)), strict=True)

    return delayed


def _check_later(name: str, domain: TimeDomain, now: Time, time: Time, part: Batch) -> None:
    if domain.contains(time) and domain.less_equal(now, time):
        return
    reason = "a time only moves forward"
    if not domain.contains(time):
        reason = f"that is no time here, where times are {domain.describe()}"
    record = shortened(records(part)[0])
    raise ValueError(f"the function of {name} returned {shortened(time)} at time {now!r}: {reason}, for {record}")


def with_keys_repeated(results: Iterable[Iterable[Any]], keys: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return two lists: all results, and for each result the key of its record.

    >>> with_keys_repeated([["to", "be"], []], [1, 2])
    (['to', 'be'], [1, 1])
    """
    parts = [list(made) for made in results]
    repeated = [key for key, part in zip(keys, parts, strict=True) for _ in part]
    return list(chain.from_iterable(parts)), repeated
