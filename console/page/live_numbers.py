"""The numbers that the page and `tidewheel top` add to a job's document: rates per second, busy shares and lags.

Each number is rounded to three digits, so that small changes are not sent to the page.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tidewheel.console.page.lag import Front, Fronts, outer_epoch
from tidewheel.pubsub.subscribers.view import View


def live_numbers(view: View, fronts: Fronts) -> dict[str, Any]:
    document = view.document
    view = View(document) if view.has_ended else view  # an ended job has no rates
    _advance(fronts.inputs, document)
    workers = max(1, int(document["job"].get("workers", 1)))
    operators = {
        number: _numbers_of(view, fronts.inputs, number, operator, workers)
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
        "probes": {
            name: _lag(fronts.inputs, probe, document["at"]) for name, probe in document.get("probes", {}).items()
        },
        **{
            section: {name: _known(records=view.rate(section, name, "records")) for name in document.get(section, {})}
            for section in ("sources", "sinks")
        },
        "workers": {
            number: _known(cpu=view.rate("workers", number, "cpu_seconds"), steps=view.rate("workers", number, "steps"))
            for number in document.get("workers", {})
        },
        "topics": {
            name: _known(
                records=_sum(
                    view.rate("topics", name, "partitions", number, "records") for number in topic["partitions"]
                ),
                lag_seconds=_lag_of_topic(fronts, name, topic["partitions"], document["at"]),
            )
            for name, topic in document.get("topics", {}).items()
        },
    }


def with_live_numbers(view: View, fronts: Fronts) -> View:
    return View({**view.document, "live": live_numbers(view, fronts)}, view.before)


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
    rates = _known(
        records_in=view.rate("operators", number, "records_in"),
        records_out=view.rate("operators", number, "records_out"),
        busy=busy,
    )
    return rates | _lag(front, operator, view.document["at"])


def _lag(front: Front, thing: Mapping[str, Any], at: float) -> dict[str, float]:
    epoch = outer_epoch(thing.get("frontier", []))
    if epoch is None:
        return {}
    lag = front.lag_of(epoch, at)
    return _known(lag_epochs=lag.epochs, lag_seconds=lag.seconds)


def _lag_of_topic(fronts: Fronts, name: str, partitions: Mapping[str, Mapping[str, int]], at: float) -> float | None:
    lags = [
        fronts.lag_of_subscribers((name, number), counts["sequence"], counts["lag_messages"], at)
        for number, counts in partitions.items()
        if "sequence" in counts and "lag_messages" in counts
    ]
    return max(lags, default=None)


def _known(**numbers: float | None) -> dict[str, float]:
    return {name: _rounded(number) for name, number in numbers.items() if number is not None and number >= 0}


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _rounded(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.3g}")
