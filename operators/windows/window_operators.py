"""Operators that gather records by event time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, overload

from tidewheel.operators.base.side_by_side import no_stream_itself
from tidewheel.operators.base.stream_base import Record, State, StreamBase, Value
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.keys.total_order import check_total_order
from tidewheel.operators.windows.ahead import AheadLimit
from tidewheel.operators.windows.event_time import EventTimeReader, read_timed
from tidewheel.operators.windows.open_windows import LateRecord, WindowResult, too_far_ahead
from tidewheel.operators.windows.watermark import build_reading
from tidewheel.operators.windows.window_fold import make_fold
from tidewheel.operators.windows.windowing import build_epoch_windows, build_event_windows
from tidewheel.operators.windows.windows import (
    Duration,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    Windows,
    check_alike,
    check_duration,
    durations_of,
)
from tidewheel.progress import GraphError, IntegerDomain, Time
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import BroadcastPact, Key

if TYPE_CHECKING:
    from tidewheel.operators.dead_letters import DeadLetters
    from tidewheel.operators.stream import Stream


@no_stream_itself
@dataclass(frozen=True, slots=True)
class Windowed(Generic[Record, Value]):
    """The two outputs of windows: together, they have each record once for each of its windows.

    Attributes:
        results: one result for each key and window, sent when the window closes.
        late: records that arrived after their window had closed, or were too far ahead, at their epochs.
            ``job.statistics()`` counts them at "window late". A job logs a warning if nothing reads this stream;
            `Stream.ignore` prevents it.
    """

    results: "Stream[WindowResult[Value]]"
    late: "Stream[LateRecord[Record]]"


class WindowOperators(StreamBase[Record]):
    """The methods of streams for windows on event time.

    When an epoch is complete, the watermark is the greatest event time so far, on any worker, minus the lateness. Then
    the operator closes the windows that end at or before the watermark, and sends their results at that epoch. If a
    record of a closed window arrives later, it goes to ``late``, once for each window that it missed.

    When the input ends, the operator sends all open windows at the last epoch with records. So while a window is open,
    that epoch is incomplete downstream: a probe or a subscriber waits until a later epoch has records, or the input
    ends. If you set ``flush_at`` to a time after all epochs, the operator sends open windows at that time, and each
    epoch completes once it is processed.

    With ``at=None`` the epoch is the event time: windows are sent at their last epoch, and no record is late.

    Source: "The Dataflow Model" (VLDB 2015), section 2.
    """

    __slots__ = ()

    @overload
    def window(
        self,
        windows: Windows,
        *,
        key: Callable[[Record], Any] | str | tuple[str, ...],
        at: Callable[[Record], Any] | str | None,
        lateness: Duration | None = None,
        flush_at: Time | None = None,
        at_most_ahead: Duration | None = None,
        clock: Callable[[], Any] | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = ...,
    ) -> Windowed[Record, list[Record]]: ...

    @overload
    def window(
        self,
        windows: Windows,
        *,
        key: Callable[[Record], Any] | str | tuple[str, ...],
        at: Callable[[Record], Any] | str | None,
        finish: Callable[[list[Record]], Value],
        lateness: Duration | None = None,
        flush_at: Time | None = None,
        at_most_ahead: Duration | None = None,
        clock: Callable[[], Any] | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = ...,
    ) -> Windowed[Record, Value]: ...

    @overload
    def window(
        self,
        windows: Windows,
        *,
        key: Callable[[Record], Any] | str | tuple[str, ...],
        at: Callable[[Record], Any] | str | None,
        start: Callable[[], State],
        add: Callable[[State, Record], State],
        combine: Callable[[State, State], State] | None = None,
        lateness: Duration | None = None,
        flush_at: Time | None = None,
        at_most_ahead: Duration | None = None,
        clock: Callable[[], Any] | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = ...,
    ) -> Windowed[Record, State]: ...

    @overload
    def window(
        self,
        windows: Windows,
        *,
        key: Callable[[Record], Any] | str | tuple[str, ...],
        at: Callable[[Record], Any] | str | None,
        start: Callable[[], State],
        add: Callable[[State, Record], State],
        finish: Callable[[State], Value],
        combine: Callable[[State, State], State] | None = None,
        lateness: Duration | None = None,
        flush_at: Time | None = None,
        at_most_ahead: Duration | None = None,
        clock: Callable[[], Any] | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = ...,
    ) -> Windowed[Record, Value]: ...

    @adds_operators("finish", "at_most_ahead", "clock", "dead_letters")
    def window(  # noqa: PLR0913 - each decides something of its own, and most may be left out
        self,
        windows: Windows,
        *,
        key: Key,
        at: Callable[[Any], Any] | str | None,
        start: Callable[[], Any] | None = None,
        add: Callable[[Any, Any], Any] | None = None,
        finish: Callable[[Any], Any] | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
        lateness: Duration | None = None,
        flush_at: Time | None = None,
        at_most_ahead: Duration | None = None,
        clock: Callable[[], Any] | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = "window",
    ) -> Windowed[Record, Any]:
        """Gather the records of each key into windows by event time, and send a result when a window closes.

        Args:
            windows: `TumblingWindows`, `SlidingWindows` or `SessionWindows`; durations are numbers, or timedeltas if
                times are datetimes.
            key: a function of a record, or the name or names of columns.
            at: the event time: a function of a record, or the name of a column. It is a number, a datetime or a
                timedelta. Either all datetimes have a zone or none has. None uses the record's epoch.
            start: returns the initial state of a window. Without ``start`` and ``add``, the state is the list of
                records in order of event time, then content.
            add: returns the state with a record added; called epoch by epoch, in order of event time within an epoch.
            finish: makes the value of a window from its state; by default the state itself.
            combine: merges two states, the earlier first; it may change the first. For sessions: a record may join two
                of them. Without ``combine``, sessions keep their records and add them when they close.
            lateness: how far a record's event time may be behind the greatest before the record is late; 0 by default.
            flush_at: the time for results of windows that are still open when the input ends; if the last epoch is
                later, that epoch.
            at_most_ahead: how far a record's event time may be ahead of the clock; a record farther ahead goes to
                ``late`` and does not move the watermark. By default a day for datetimes; ``timedelta.max`` means no
                limit. Numbers and timedeltas have no limit by default; a limit needs a ``clock``.
            clock: returns the current time as an event time; each worker calls it once for each batch. By default the
                wall clock, in UTC for naive datetimes. A restored job calls it again, and so may accept a record that
                was too far ahead before: see "Records of the future" in docs/how-to/windows.md.
            dead_letters: receives records for which ``key`` or ``at`` raises, or that have no event time; None fails
                the job. An error of another function always fails the job.
            name: the operator's name.

        Raises:
            GraphError: an argument cannot be used, or the stream is in a loop, where times have no total order.

        Complexity: O(log n) to sort each record, with n records of the same epoch on a worker; ``add`` is called for
        each window of a record.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("visits")
        >>> hits = flow.source("hits", tw.IterableSource([[(0, [("ann", 50), ("bob", 70)]), (1, [("ann", 55)])]]))
        >>> by_minute = hits.window(tw.TumblingWindows(60), key=lambda hit: hit[0], at=lambda hit: hit[1], finish=len)
        >>> _, _ = by_minute.results.capture("counts"), by_minute.late.capture("late")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     for captured in job.captured("counts") + job.captured("late"):
        ...         print(captured.time, captured.batch)
        0 [WindowResult(key='ann', start=0, end=60, value=1)]
        1 [WindowResult(key='bob', start=60, end=120, value=1)]
        1 [LateRecord(key='ann', start=0, end=60, at=55, record=('ann', 55), watermark=70)]
        """
        fold = make_fold(start, add, finish, combine, sessions=isinstance(windows, SessionWindows))
        keys = Keys.checked("window", key, self.schema)
        _check(self, windows, at, lateness, flush_at)
        reader = None if at is None else EventTimeReader(keys, at, durations_of(windows)[0])
        stream: StreamBase[Record] = self
        if dead_letters is not None:
            stream = self._with_good_keys(name, key, dead_letters, None if reader is None else reader.read_one)
        if reader is None:
            has_no_limit = at_most_ahead is None and clock is None
            _require(has_no_limit, "with at=None, no record is ahead of its time: no at_most_ahead, no clock")
            build = build_epoch_windows(windows, fold, keys, self.nesting.domain)
            results, late = stream._operator(name, [], 2, build, [key])
            return Windowed(results, late._stage(f"{name} late", lambda batch: batch)._for_effect(is_asked_for=False))
        limit = AheadLimit.checked("operator 'window'", at_most_ahead, clock, reader.length)
        read = partial(read_timed, reader, limit, partial(too_far_ahead, windows))
        timed, latest, ahead = stream._operator(f"{name} times", [], 3, build_reading(read), [key], notify=False)
        build = build_event_windows(windows, fold, lateness, flush_at)
        results, late = timed._operator(name, [latest], 2, build, [None, BroadcastPact()])
        # Late records pass an operator of their own, so that statistics count them even if nothing reads them.
        all_late = late.concat(ahead, name=f"{name} late")._for_effect(is_asked_for=False)
        self._note_side_by_side({".results": results, ".late": all_late})
        return Windowed(results, all_late)


def _check(stream: StreamBase[Any], windows: Windows, at: object, lateness: object, flush_at: object) -> None:
    check_total_order("window", stream._outlet.scope)
    _require(
        isinstance(windows, TumblingWindows | SlidingWindows | SessionWindows),
        f"windows are TumblingWindows, SlidingWindows or SessionWindows, not {windows!r}",
    )
    domain = stream.nesting.domain
    if at is None:
        epochs = "at=None takes the epoch as event time"
        _require(isinstance(domain, IntegerDomain), f"{epochs}, which has to be an integer; give at=")
        late = "with at=None, no record is late and nothing is left: no lateness, no flush_at"
        _require(lateness is None and flush_at is None, late)
        are_epochs = all(isinstance(duration, int) for duration in durations_of(windows))
        _require(are_epochs, f"{epochs}, so windows last a number of epochs: {windows!r}")
        return
    found = f"at is a function of a record, a name of a column, or None, not {at!r}"
    _require(callable(at) or isinstance(at, str), found)
    if lateness is not None:
        check_duration("operator 'window'", "lateness", lateness, least="zero")
        check_alike("operator 'window'", "lateness", lateness, durations_of(windows)[0])
    if flush_at is not None:
        time = f"flush_at is a time of the dataflow, where times are {domain.describe()}, not {flush_at!r}"
        _require(domain.contains(flush_at), time)


def _require(is_right: bool, why: str) -> None:
    if not is_right:
        raise GraphError(f"operator 'window': {why}")
