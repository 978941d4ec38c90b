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
from tidewheel.progress import Time
from tidewheel.runtime import Build, InputPort, LentToken
from tidewheel.runtime.worker.ports import OutputPort, running_output
from tidewheel.transport.batches import Batch, records

Times: TypeAlias = Callable[[list[Any], Time], Sequence[Time]]
"""Says for each of some records at which time it is to be sent, given the least time that is allowed."""


def build_delay(name: str, times: Times) -> Build:
    """Return the build function of an operator that sends each record at the time that ``times`` says."""

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, batch in input:
            _send_later(name, times, lent, batch, output)

    return lambda context: schedule


def _send_later(name: str, times: Times, lent: LentToken, batch: Batch, output: OutputPort) -> None:
    now = lent.time_on(running_output(output))
    rows = records(batch)
    each = times(rows, now)
    for time in _distinct(each):
        if not _is_later(now, time, output):
            raise ValueError(f"{_refusal(name, now, time, output)}, for {shortened(rows[each.index(time)])}")
    numbers = {time: number for number, time in enumerate(_distinct(each))}
    parts = divide(batch, [numbers[time] for time in each], len(numbers))
    for time, part in zip(numbers, parts, strict=True):
        _send(lent, now, time, part, output)


def _distinct(times: Sequence[Time]) -> Iterable[Time]:
    try:
        return dict.fromkeys(times)
    except TypeError:  # one of them cannot be hashed, so it is no time, which the caller finds out
        return times


def _is_later(now: Time, time: Time, output: OutputPort) -> bool:
    domain = running_output(output).domain
    return domain.contains(time) and domain.less_equal(now, time)


def _refusal(name: str, now: Time, time: Time, output: OutputPort) -> str:
    returned = f"the function of {name} returned {time!r} at time {now!r}"
    domain = running_output(output).domain
    if not domain.contains(time):
        return f"{returned}: that is no time here, where times are such as {domain.minimum()!r}"
    return f"{returned}: a time only moves forward"


def _send(lent: LentToken, now: Time, time: Time, batch: Batch, output: OutputPort) -> None:
    if time == now:
        output.send(lent, batch)
        return
    with lent.delayed(time) as token:
        output.send(token, batch)


def build_delay_batches(name: str, function: Callable[[Time], Time]) -> Build:
    """Return the build function of an operator that sends each batch, as it is, at ``function(time)``."""

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, batch in input:
            time = function(lent.time)
            if not _is_later(lent.time, time, output):
                raise ValueError(_refusal(name, lent.time, time, output))
            _send(lent, lent.time, time, batch, output)

    return lambda context: schedule
