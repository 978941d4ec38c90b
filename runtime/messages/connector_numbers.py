"""The numbers of a source or a sink on one worker, for the live page and the metrics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """The numbers of a source on one worker.

    Attributes:
        partitions: the partitions that it has and that have not ended.
        records: the records that it has sent in this run.
        lag: how far its open partitions are behind their other ends, by unit; see `whole_lag`.
    """

    partitions: int
    records: int
    lag: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkNumbers:
    """The numbers of a sink on one worker; only worker 0 commits.

    Attributes:
        records, epochs: what it has committed in this run.
        waiting: the epochs of which this worker has records, or knows of some, and that are not committed.
        committed: when it has last committed an epoch, in seconds since 1970; None before the first.
    """

    records: int
    epochs: int
    waiting: int
    committed: float | None = None


ConnectorNumbers: TypeAlias = SourceNumbers | SinkNumbers


def whole_lag(lags: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the lag of several partitions: records and bytes are added up, of seconds the most counts.

    >>> whole_lag([{"records": 3, "seconds": 1.5}, {"records": 4, "bytes": 10, "seconds": 0.5}, {}])
    {'records': 7, 'seconds': 1.5, 'bytes': 10}
    """
    found: dict[str, float] = {}
    for lag in lags:
        for unit, amount in lag.items():
            before = found.get(unit, 0)
            found[unit] = max(before, amount) if unit == "seconds" else before + amount
    return found


def of_source(workers: Sequence[SourceNumbers]) -> dict[str, float]:
    """Return the numbers of a source on all workers; a lag is that of the workers that know it.

    >>> of_source([SourceNumbers(2, 50, {"records": 7}), SourceNumbers(1, 0)])
    {'partitions': 3, 'records': 50, 'lag_records': 7}
    """
    return {
        "partitions": sum(one.partitions for one in workers),
        "records": sum(one.records for one in workers),
        **{f"lag_{unit}": amount for unit, amount in whole_lag(one.lag for one in workers).items()},
    }


def of_sink(workers: Sequence[SinkNumbers]) -> dict[str, float]:
    """Return the numbers of a sink on all workers; as many epochs wait as on the worker on which the most wait.

    >>> of_sink([SinkNumbers(9, 2, 1, 5.0), SinkNumbers(0, 0, 3)])
    {'records': 9, 'epochs': 2, 'waiting': 3, 'committed': 5.0}
    """
    committed = [one.committed for one in workers if one.committed is not None]
    return {
        "records": sum(one.records for one in workers),
        "epochs": sum(one.epochs for one in workers),
        "waiting": max(one.waiting for one in workers),
        **({"committed": max(committed)} if committed else {}),
    }
