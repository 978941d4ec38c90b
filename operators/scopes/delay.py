"""Operators that send records at later times than those at which they came.

A record goes on at once, with a token for its later time: nothing is held here, and no frontier is looked at. Whoever
waits downstream until a time is complete waits for the records that were delayed to it as well, since the message
itself stands for that time.

Source: timely dataflow's ``delay``, which holds records back here instead, until their new time has come.
"""

from collections.abc import Callable, Iterable, Sequence
from reprlib import repr as shortened
from typing import Any, TypeAlias

from tidewheel.operators.records.parts import divide
from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime import Build, InputPort
from tidewheel.runtime.worker.ports import OutputPort, running_output
from tidewheel.transport.batches import Batch, records

Delayed: TypeAlias = Callable[[Batch, Time], Iterable[tuple[Time, Batch]]]
"""Returns the parts of a batch, each behind the time at which to send it, given the least time that is allowed."""


def build_delay(name: str, delayed: Delayed) -> Build:
    """Return the build function of an operator that sends the parts of each batch at the times that are said."""

    def schedule(input: InputPort, output: OutputPort) -> None:
        running = running_output(output)
        for lent, batch in input:
            now = lent.time_on(running)
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
    """Return what delays each record to the time that ``times(records, time)`` has for it."""

    def delayed(batch: Batch, now: Time) -> Iterable[tuple[Time, Batch]]:
        rows = records(batch)
        each = times(rows, now)
        try:
            numbers = {time: number for number, time in enumerate(dict.fromkeys(each))}
        except TypeError:  # one of them cannot be hashed, so it is no time, which the caller finds out
            return [(time, [record]) for time, record in zip(each, rows, strict=True)]
        return zip(numbers, divide(batch, [numbers[time] for time in each], len(numbers)), strict=True)

    return delayed


def _check_later(name: str, domain: TimeDomain, now: Time, time: Time, part: Batch) -> None:
    if domain.contains(time) and domain.less_equal(now, time):
        return
    reason = "a time only moves forward"
    if not domain.contains(time):
        reason = f"that is no time here, where times are such as {domain.minimum()!r}"
    record = shortened(records(part)[0])
    raise ValueError(f"the function of {name} returned {time!r} at time {now!r}: {reason}, for {record}")
