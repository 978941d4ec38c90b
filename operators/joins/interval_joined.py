"""The streams of an interval join: how event times are read, told to all workers and brought to the join."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.joins.interval_join import Interval, IntervalJoin
from tidewheel.operators.joins.interval_table_join import IntervalTableJoin, build_table_reading
from tidewheel.operators.joins.table_join import JoinedColumns
from tidewheel.operators.keys.join_keys import KeyColumns, KeyFunctions
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.records.arrow_rows import table_schema
from tidewheel.operators.stream_base import StreamBase
from tidewheel.operators.tables.columns import check_names
from tidewheel.operators.windows.event_time import EventTimeReader
from tidewheel.operators.windows.watermark import At
from tidewheel.operators.windows.windowing import build_reading
from tidewheel.operators.windows.windows import Duration
from tidewheel.progress import GraphError
from tidewheel.runtime.description.pacts import BroadcastPact
from tidewheel.runtime.description.plan import Build

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream

Record = TypeVar("Record")
Other = TypeVar("Other")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class IntervalJoined(Generic[Result, Record, Other]):
    """What comes out of an interval join.

    Attributes:
        results: what was made of each pair, at the later of the two epochs.
        late: this side's records that came too late to be paired, at the epoch with which they came.
        other_late: those of the other side.
    """

    results: "Stream[Result]"
    late: "Stream[Record]"
    other_late: "Stream[Other]"


def join_intervals(
    left: StreamBase[Any],
    right: StreamBase[Any],
    keys: KeyFunctions | KeyColumns,
    at: tuple[At, At],
    interval: Interval,
    lateness: Duration | None,
    suffix: str,
) -> IntervalJoined[Any, Any, Any]:
    """Add what reads the event times ``at`` of both sides, and behind it the join.

    Raises:
        GraphError: the streams are of different scopes, or ``at`` does not go with the keys.
    """
    left.outlet.description.check_inputs("interval_join", [left.outlet, right.outlet])
    reads, join = _builds(keys, at, interval, lateness, suffix)
    schemas = (left.schema, right.schema)
    joined = None
    if isinstance(keys, KeyColumns):
        joined = JoinedColumns(keys, suffix).schema_of("interval_join", *schemas)
        for schema, time in zip(schemas, at, strict=True):
            check_names("interval_join", schema, [time] if isinstance(time, str) else [])
    (left, latest), (right, other_latest) = (
        side._operator("event times", [], 2, read, [exchange], notify=False)
        for side, read, exchange in zip((left, right), reads, keys.exchanges, strict=True)
    )
    pacts = (None, None, BroadcastPact(), BroadcastPact())
    made = left._operator("interval_join", [right, latest, other_latest], 3, join, pacts)
    if isinstance(keys, KeyColumns):
        late = (None if schema is None else table_schema(schema) for schema in schemas)
        for stream, schema in zip(made, (joined, *late), strict=True):
            stream.schema = schema
    return IntervalJoined(*made)


def _builds(
    keys: KeyFunctions | KeyColumns, at: tuple[At, At], interval: Interval, lateness: Duration | None, suffix: str
) -> tuple[list[Build], Build]:
    if isinstance(keys, KeyFunctions):
        functions = (keys.left, keys.right)
        readers = [EventTimeReader(Keys(key), times, interval.lower) for key, times in zip(functions, at, strict=True)]
        pairs = IntervalJoin(interval, lateness)
        return [build_reading(reader) for reader in readers], build_gathered(4, pairs.process, pairs.start, 3)
    columns = [name for name in at if isinstance(name, str)]
    if len(columns) < 2:
        raise GraphError(f"operator 'interval_join': where keys are columns event times are columns too, not {at!r}")
    tables = IntervalTableJoin(keys, columns[0], columns[1], interval, lateness, suffix)
    reads = [build_table_reading(name, interval.lower) for name in columns]
    return reads, build_gathered(4, tables.process, tables.start, 3)
