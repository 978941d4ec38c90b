"""The rule by which substreams end by themselves: nothing of one happens for some event time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidewheel.operators.tables.columns import check_names
from tidewheel.operators.windows.watermark import At
from tidewheel.operators.windows.windows import Duration, EventTime, check_alike, check_duration
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TimeOut:
    """When a substream ends by itself.

    Attributes:
        at: how the event time of a record is found.
        timeout: how long nothing of a substream happens when it is over.
        lateness: how far the watermark lies behind the greatest event time; None: not at all.
    """

    at: At
    timeout: Duration
    lateness: Duration | None

    def deadline(self, key: Any, latest: EventTime) -> EventTime:
        """Return at which watermark a substream ends, given when the latest of its records happened.

        Raises:
            ValueError: there is no such time.
        """
        try:
            return latest + self.timeout
        except OverflowError as error:
            raise ValueError(
                f"the event time of a record of substream {key!r} is {latest!r}: there is no time {self.timeout!r} "
                "after that"
            ) from error


def make_time_out(
    what: str, schema: "pa.Schema | None", at: Any, timeout: Any, lateness: Any, *, by_name: bool
) -> TimeOut | None:
    """Return the rule that is given by these arguments of ``substreams``, None if none is.

    ``by_name`` says whether substreams have predicates instead of keys.

    Raises:
        GraphError: they do not go together, or are no such things.
    """
    if at is None and timeout is None:
        if lateness is not None:
            raise GraphError(f"{what}: lateness is that of a time-out: give at and timeout, too")
        return None
    if at is None or timeout is None:
        raise GraphError(
            f"{what}: a substream ends by itself when nothing of it has happened for some time. Give both at, when a "
            "record happened, and timeout, for how long"
        )
    if by_name:
        raise GraphError(
            f"{what}: predicates name substreams that are there from beginning to end, so they have no time-out: "
            "give a key instead"
        )
    if isinstance(at, str):
        check_names(what, schema, [at])
    elif not callable(at):
        raise GraphError(f"{what}: at is a function of a record, or the name of a column, not {at!r}")
    check_duration(what, "timeout", timeout)
    if lateness is not None:
        check_duration(what, "lateness", lateness, least="zero")
        check_alike(what, "lateness", lateness, timeout)
    return TimeOut(at, timeout, lateness)
