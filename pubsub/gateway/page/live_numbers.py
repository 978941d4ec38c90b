"""The numbers that the page adds to a job's document: rates per second, busy shares and lags.

They have three digits, so that what hardly changes is not sent.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tidewheel.pubsub.gateway.page.lag import Front, outer_epoch
from tidewheel.pubsub.telemetry.view import View


def live_numbers(view: View, front: Front) -> dict[str, Any]:
    """Return the numbers of ``operators``, ``edges``, ``workers`` and ``topics``, each by its key, and of the job.

    Args:
        view: the job now.
        front: the epochs of its inputs, which this call brings up to date.
    """
    document = view.document
    _advance(front, document)
    workers = max(1, int(document["job"].get("workers", 1)))
    operators = {
        number: _numbers_of(view, front, number, operator, workers)
        for number, operator in document.get("operators", {}).items()
    }
    inputs = [number for number, operator in document.get("operators", {}).items() if operator["kind"] == "input"]
    return {
        "records": _rounded(sum(operators[number].get("records_out", 0.0) for number in inputs)),
        "operators": operators,
        "edges": {
            number: _known(records=view.rate("edges", number, "records"), bytes=view.rate("edges", number, "bytes"))
            for number in document.get("edges", {})
        },
        "workers": {
            number: _known(cpu=view.rate("workers", number, "cpu_seconds"), steps=view.rate("workers", number, "steps"))
            for number in document.get("workers", {})
        },
        "topics": {
            name: _known(
                records=_sum(
                    view.rate("topics", name, "partitions", number, "records") for number in topic["partitions"]
                )
            )
            for name, topic in document.get("topics", {}).items()
        },
    }


def _advance(front: Front, document: Mapping[str, Any]) -> None:
    inputs = [operator for operator in document.get("operators", {}).values() if operator["kind"] == "input"]
    frontiers = [operator.get("frontier", []) for operator in inputs]
    frontiers += [[port["epoch"]] for port in document.get("inputs", {}).values() if port.get("epoch") is not None]
    epochs = [epoch for frontier in frontiers if (epoch := outer_epoch(frontier)) is not None]
    if epochs:
        front.reach(max(epochs), document["at"])


def _numbers_of(view: View, front: Front, number: str, operator: Mapping[str, Any], workers: int) -> dict[str, float]:
    busy = view.rate("operators", number, "seconds")
    if busy is not None:
        inside = 1.0 if operator.get("busy") else 0.0  # its seconds count only when it has returned
        busy = min(1.0, max(busy, inside) / workers)
    epoch = outer_epoch(operator.get("frontier", []))
    lag = None if epoch is None else front.lag_of(epoch, view.document["at"])
    return _known(
        records_in=view.rate("operators", number, "records_in"),
        records_out=view.rate("operators", number, "records_out"),
        busy=busy,
        lag_epochs=None if lag is None else lag.epochs,
        lag_seconds=None if lag is None else lag.seconds,
    )


def _known(**numbers: float | None) -> dict[str, float]:
    return {name: _rounded(number) for name, number in numbers.items() if number is not None and number >= 0}


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _rounded(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.3g}")
