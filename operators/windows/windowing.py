"""The window operators, which fill windows epoch by epoch and close them when they are complete.

Event time needs two operators. The first reads event times after the exchange by key. It passes the records to the
second operator on its worker, and sends the greatest time of each epoch to the second operators of all workers. So when
an epoch is complete, all workers have the same watermark.

While a window is open, the operator holds a token at the last epoch with records, to send open windows at that epoch if
the input ends. If the epoch is the event time, a window has a token at its last epoch from the start.
"""

from collections.abc import Sequence
from itertools import chain
from operator import add
from typing import TypeAlias

from tidewheel.batches.batches import Batch, records
from tidewheel.operators.base.division import Division, everywhere
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.keys.record_keys import Keys, as_key
from tidewheel.operators.windows.event_time import BY_KEY, TimedRecord, read_keys
from tidewheel.operators.windows.open_sessions import OpenSessions, SessionBook
from tidewheel.operators.windows.open_windows import NumberedWindow, NumberedWindows
from tidewheel.operators.windows.watermark import Watermark
from tidewheel.operators.windows.window_fold import WindowFold
from tidewheel.operators.windows.windows import Duration, SessionWindows, Windows
from tidewheel.progress import IntegerDomain, Time, TimeDomain
from tidewheel.runtime.description.pacts import BroadcastPact
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort

OpenWindows: TypeAlias = NumberedWindows | OpenSessions


def build_event_windows(windows: Windows, fold: WindowFold, lateness: Duration | None, flush_at: Time | None) -> Build:
    """Build an operator that puts records into windows by event time; watermarks close them."""

    def build(context: OperatorContext) -> Schedule:
        watermark = everywhere(Watermark.merge).state(context, "watermark", lambda: Watermark(lateness))
        opened = _open_windows(windows, fold, context)
        ending = context.notificator()

        def process(kept: object, batches: list[list[Batch]], token: TimestampToken) -> Sequence[list[Batch]]:
            timed, latest = (list(chain.from_iterable(side)) for side in batches)
            late = opened.take(timed, watermark.value)
            watermark.advance(latest)
            results = opened.close(watermark.value)
            for time in ending.times:
                ending.take(time).discard()
            if opened:
                ending.notify_at(token.delayed(token.time if flush_at is None else max(flush_at, token.time)))
            return [results], [late]

        schedule_epochs = build_gathered(2, process, outputs=2, pacts=[BY_KEY, BroadcastPact()])(context)

        def schedule(timed: InputPort, latest: InputPort, results: OutputPort, late: OutputPort) -> None:
            schedule_epochs(timed, latest, results, late)
            if not len(timed.frontier) and not len(latest.frontier):
                for token in ending.ready(timed, latest):
                    results.send(token, opened.close(None))

        return schedule

    return build


def build_epoch_windows(windows: Windows, fold: WindowFold, keys: Keys, domain: TimeDomain) -> Build:
    """Build an operator whose windows consist of whole epochs, which are integers."""
    assert isinstance(domain, IntegerDomain)
    maximum = domain.maximum

    def build(context: OperatorContext) -> Schedule:
        division = Division(BY_KEY.split, add).of_each()
        waiting: dict[Time, list[TimedRecord]] = division.state(context, "waiting", dict)
        opened = _open_windows(windows, fold, context)
        complete = context.notificator()

        def schedule(input: InputPort, results: OutputPort, late: OutputPort) -> None:
            for lent, batch in input:
                rows = records(batch)
                keyed = zip(read_keys(batch, rows, keys), rows, strict=True)
                waiting.setdefault(lent.time, []).extend([(key, lent.time, row) for key, row in keyed])
                complete.notify_at(lent, results)
            for token in complete.ready(input):
                epoch = token.time
                opened.take(waiting.pop(epoch, []), epoch)
                results.send(token, opened.close(epoch + 1 if epoch < maximum else None))
                if opened:
                    complete.notify_at(token.delayed(min(opened.first_end() - 1, maximum)))

        return schedule

    return build


def _open_windows(windows: Windows, fold: WindowFold, context: OperatorContext) -> OpenWindows:
    if isinstance(windows, SessionWindows):
        return OpenSessions(windows.gap, fold, SessionBook(context.keyed_state("sessions")))
    division = Division(NumberedWindow.split, NumberedWindow.merge).of_each()
    opened: dict[int, NumberedWindow] = division.state(context, "windows", dict)
    for window in opened.values():  # a NaN of a snapshot is another object
        window.states = {as_key(key): state for key, state in window.states.items()}
    return NumberedWindows(windows, fold, opened)
