"""The operator that joins records by key and event time.

Each worker reads the event times of its records, and sends the greatest to all workers.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, overload

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.side_by_side import no_stream_itself
from tidewheel.operators.base.stream_base import Other, Record, Result, StreamBase, check_stream
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.joins.interval_join import Interval, IntervalJoin, Kept, make_interval
from tidewheel.operators.joins.interval_table_join import IntervalTableJoin, read_table
from tidewheel.operators.joins.join_keys import JoinKeys, make_keys
from tidewheel.operators.joins.table_join import JoinedColumns
from tidewheel.operators.joins.unlike_keys import UnlikeKeys
from tidewheel.operators.keys.arrow_rows import table_schema
from tidewheel.operators.keys.columns import check_names
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.keys.total_order import check_total_order
from tidewheel.operators.windows.ahead import AheadLimit
from tidewheel.operators.windows.event_time import BY_KEY, EventTimeReader, TimedRecord, read_timed
from tidewheel.operators.windows.watermark import At, build_reading
from tidewheel.operators.windows.windows import Duration
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import BroadcastPact, Key, Pact
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.worker.operator_context import OperatorContext

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.operators.dead_letters import DeadLetters
    from tidewheel.operators.stream import Stream


@no_stream_itself
@dataclass(frozen=True, slots=True)
class IntervalJoined(Generic[Result, Record, Other]):
    """The three outputs of an interval join.

    Attributes:
        results: the result of each pair, at the later of the two epochs.
        late: this side's records that arrived too late, or are too far ahead of the clock, at the epoch of their
            arrival. They are not paired.
        other_late: such records of the other side.
    """

    results: "Stream[Result]"
    late: "Stream[Record]"
    other_late: "Stream[Other]"


class IntervalJoinOperators(StreamBase[Record]):
    """The methods of streams that join records with nearby event times."""

    __slots__ = ()

    @overload
    def interval_join(
        self,
        other: "Stream[Any]",
        on: str | tuple[str, ...],
        other_on: str | tuple[str, ...] | None = None,
        *,
        at: str,
        other_at: str | None = None,
        within: tuple[Duration, Duration],
        lateness: Duration | None = None,
        at_most_ahead: Duration | None = None,
        clock: Callable[[], Any] | None = None,
        suffix: str = "",
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> IntervalJoined[Any, Any, Any]: ...

    @overload
    def interval_join(
        self,
        other: "Stream[Other]",
        on: Callable[[Record], Hashable],
        other_on: Callable[[Other], Hashable] | None = None,
        *,
        at: Callable[[Record], Any] | str,
        other_at: Callable[[Other], Any] | str | None = None,
        within: tuple[Duration, Duration],
        lateness: Duration | None = None,
        at_most_ahead: Duration | None = None,
        clock: Callable[[], Any] | None = None,
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> IntervalJoined[tuple[Record, Other], Record, Other]: ...

    @adds_operators("at_most_ahead", "clock", "dead_letters")
    def interval_join(  # noqa: PLR0913 - each decides something of its own, and most may be left out
        self,
        other: "Stream[Any]",
        on: Key,
        other_on: Key | None = None,
        *,
        at: At,
        other_at: At | None = None,
        within: tuple[Duration, Duration],
        lateness: Duration | None = None,
        at_most_ahead: Duration | None = None,
        clock: Callable[[], Any] | None = None,
        suffix: str = "",
        dead_letters: "DeadLetters | None" = None,
        name: str = "interval_join",
    ) -> IntervalJoined[Any, Any, Any]:
        """Pair records with equal keys and nearby event times, of any epochs.

        A pair has ``at(record) + lower <= other_at(partner) <= at(record) + upper`` and is sent once, at the later
        epoch. When an epoch is complete, each side has a watermark: its greatest event time so far, on any worker, less
        ``lateness``. A record of a later epoch with an event time before its own side's watermark is late, and goes to
        ``late`` or ``other_late``. All other records meet all their partners. They are kept until the other side's
        watermark has passed their last possible partner. Keys and results are as for `join`.

        Args:
            other: the other side, of the same scope.
            on: the key of this side's records: a function, or the name or names of columns.
            other_on: the key of the other side's records; ``on`` by default.
            at: the event time of this side's records: a function, or the name of a column. It is a number, a datetime
                or a timedelta; columns may also have dates.
            other_at: the event time of the other side's records; ``at`` by default.
            within: (lower, upper): the least and greatest event time of a partner minus that of the record; timedeltas,
                or numbers if times are numbers.
            lateness: how far a record's event time may be behind the greatest of its side before the record is late; 0
                by default.
            at_most_ahead: how far a record's event time may be ahead of the clock, as for `window`; a record farther
                ahead counts as late.
            clock: returns the current time as an event time, as for `window`.
            suffix: appended to the other side's column names that this side has, too; without it they are an error.
            dead_letters: receives records of both sides for which a function of a record raises, or that have no event
                time; None fails the job.
            name: the operator's name.

        Raises:
            GraphError: an argument cannot be used, or the stream is in a loop, where times have no total order.

        Complexity: with functions, O(log n) for each record, with n kept records of its key. With tables, O(n log n) an
        epoch, with n new or kept rows.

        Source: Flink's interval join.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("clicks after views")
        >>> views, clicks = flow.input("views"), flow.input("clicks")
        >>> joined = views.interval_join(clicks, lambda v: v[0], at=lambda v: v[1], within=(0, 10))
        >>> _ = joined.results.capture("followed"), joined.late.ignore(), joined.other_late.ignore()
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("views") as feed:
        ...         feed.send([("ad", 100)])
        ...     with job.input("clicks") as feed:
        ...         feed.advance_to(1)
        ...         feed.send([("ad", 107), ("ad", 111)])
        ...     job.wait()
        ...     job.captured("followed")
        [Captured(time=1, batch=[(('ad', 100), ('ad', 107))])]
        """
        self._description.check_inputs(name, [self._outlet, check_stream(name, other)])
        check_total_order(name, self._outlet.scope)
        keys = make_keys(name, on, other_on, suffix)
        times = (at, at if other_at is None else other_at)
        interval = make_interval(name, within, lateness)
        limit = AheadLimit.checked(f"operator {name!r}", at_most_ahead, clock, interval.lower)
        builds, known = _builds(keys, times, interval, lateness, limit, suffix, (self.schema, other.schema))
        sides: list[StreamBase[Any]] = [self, other]
        if dead_letters is not None:
            reads = [_reads(own, time, interval) for own, time in zip(keys, times, strict=True)]
            parts = zip(sides, keys.of_sides, reads, (": keys", ": other keys"), strict=True)
            sides = [side._with_good_keys(name, key, dead_letters, read, part=part) for side, key, read, part in parts]
        left, latest, ahead = sides[0]._operator(f"{name} times", [], 3, builds[0], keys.exchanges[:1], notify=False)
        right, *more = sides[1]._operator(f"{name} times", [], 3, builds[1], keys.exchanges[1:], notify=False)
        other_latest, other_ahead = more
        pacts = (None, None, BroadcastPact(), BroadcastPact())
        results, late, other_late = left._operator(name, [right, latest, other_latest], 3, builds[2], pacts)
        made = (
            results,
            late.concat(ahead, name=f"{name} late")._for_effect(is_asked_for=False),
            other_late.concat(other_ahead, name=f"{name} other late")._for_effect(is_asked_for=False),
        )
        for stream, schema in zip(made, known, strict=True):
            stream.schema = schema
        self._note_side_by_side(dict(zip((".results", ".late", ".other_late"), made, strict=True)))
        return IntervalJoined(*made)


def _reads(keys: Keys, at: At, interval: Interval) -> Callable[[Any], None] | None:
    """Return a function that raises for a record without key or event time; None where these are columns."""
    return EventTimeReader(keys, at, interval.lower).read_one if callable(keys.key) else None


def _builds(
    keys: JoinKeys,
    at: tuple[At, At],
    interval: Interval,
    lateness: Duration | None,
    limit: AheadLimit,
    suffix: str,
    schemas: "Sequence[pa.Schema | None]",
) -> "tuple[list[Build], list[pa.Schema | None]]":
    """Return the builds of the two operators that read both sides and of the join, and the schemas of its outputs.

    Raises:
        GraphError: the columns cannot be joined.
    """
    join: IntervalJoin | IntervalTableJoin
    if not keys.are_columns:
        readers = [EventTimeReader(side, times, interval.lower) for side, times in zip(keys, at, strict=True)]
        join = IntervalJoin(interval, lateness)
        reads = [build_reading(partial(read_timed, reader, limit, _record_of)) for reader in readers]
        return [*reads, _build_join(join, [BY_KEY, BY_KEY])], [None] * 3
    names = [name for name in at if isinstance(name, str)]
    if len(names) < len(at):
        raise GraphError(f"operator 'interval_join': where keys are columns event times are columns too, not {at!r}")
    columns = JoinedColumns(keys, suffix)
    known = [columns.schema_of("interval_join", *schemas)]
    for name, schema in zip(names, schemas, strict=True):
        check_names("interval_join", schema, [name])
        known.append(None if schema is None else table_schema(schema))
    join = IntervalTableJoin(columns, names, interval, lateness)
    reads = [build_reading(partial(read_table, name, interval.lower, limit)) for name in names]
    return [*reads, _build_join(join, join.pacts)], known


def _record_of(entry: TimedRecord, _: object) -> tuple[Any]:
    return (entry[2],)


def _build_join(join: IntervalJoin | IntervalTableJoin, pacts: list[Pact]) -> Build:
    def process(both: tuple[Kept, UnlikeKeys], batches: list[list[Batch]], token: object) -> Sequence[list[Batch]]:
        kept, unlike_keys = both
        made = join.process(kept, batches, token)
        join.compare_keys(kept, unlike_keys)
        return made

    def keep(context: OperatorContext) -> tuple[Kept, UnlikeKeys]:
        return join.keep(context), UnlikeKeys(context)

    return build_gathered(4, process, keep, 3, pacts=[*pacts, BroadcastPact(), BroadcastPact()])
