"""Substreams tracked by punctuations, to compare with: markers go with the records over every channel.

These are ordinary operators. A marker follows the last record of its key. An operator sends the marker on when
it has come over all channels; on an exchange it goes to every worker. Keys are not used again, and there are no loops.

Source: seed "Substream Management", section "Punctuations framework".
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tidewheel as tw
from tidewheel.batches.batches import Batch
from tidewheel.runtime.description.pacts import Exchange, Pact


@dataclass(frozen=True, slots=True)
class Markers:
    """Markers that travel together as one record: behind them nothing of these keys comes over the channel."""

    keys: tuple[Any, ...]


def are_markers(batch: Batch) -> bool:
    """Tell whether a batch is of markers; a message has either markers or records."""
    return type(batch[0]) is Markers


@dataclass(frozen=True, slots=True)
class MarkedExchange(Pact):
    """Sends each record to the worker that owns its key, and markers to every worker."""

    records: Exchange

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return one part for each worker."""
        return [batch] * workers if are_markers(batch) else self.records.split(batch, workers)


class Alignment:
    """Counts over how many channels the marker of each key has come to an operator on one worker."""

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self._come: Counter[Any] = Counter()

    def complete(self, batch: list[Markers]) -> list[Any]:
        """Take markers; return the keys whose markers have now come over all channels."""
        come, channels, found = self._come, self._channels, []
        for markers in batch:
            for key in markers.keys:
                come[key] += 1
                if come[key] == channels:
                    del come[key]
                    found.append(key)
        return found


def markers_of(keys: list[Any], *, one_by_one: bool) -> list[list[Markers]]:
    """Return the messages of markers for some keys: one message for all, or one for each as the paper has it."""
    return [[Markers((key,))] for key in keys] if one_by_one else [[Markers(tuple(keys))]]


@dataclass(frozen=True, slots=True)
class MarkedStay(Pact):
    """Keeps records on their worker, and sends markers to every worker."""

    worker: int = 0

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return one part for each worker."""
        return [batch if are_markers(batch) or worker == self.worker else None for worker in range(workers)]

    def for_worker(self, worker: int) -> Pact:
        """Return the pact of one worker."""
        return MarkedStay(worker)


def marked(
    records: Any, key: Callable[[Any], Any], is_last: Callable[[Any], bool], *, one_by_one: bool
) -> tw.Stream[Any]:
    """Have the worker that owns a key send its marker behind the last record, by way of every worker."""

    def build(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                output.send(token, batch)
                ended = [key(record) for record in batch if is_last(record)]
                for message in markers_of(ended, one_by_one=one_by_one) if ended else ():
                    output.send(token, message)

        return schedule

    def pass_on(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                output.send(token, batch)

        return schedule

    divided = records._unary("marked", build, Exchange(key), notify=False)
    return divided._unary("passed on", pass_on, MarkedStay(), notify=False)  # type: ignore[no-any-return]


def exchanged(
    records: Any, key: Callable[[Any], Any], change: Callable[[Any], Any], *, one_by_one: bool
) -> tw.Stream[Any]:
    """Exchange marked records by a key and change each, and send markers on when they have come from all workers."""

    def build(context: Any) -> Any:
        alignment = Alignment(context.workers)

        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                if not are_markers(batch):
                    output.send(token, [change(record) for record in batch])
                elif keys := alignment.complete(batch):
                    for message in markers_of(keys, one_by_one=one_by_one):
                        output.send(token, message)

        return schedule

    return records._unary("exchanged", build, MarkedExchange(Exchange(key)), notify=False)  # type: ignore[no-any-return]


def collected(
    records: Any,
    key: Callable[[Any], Any],
    substream: Callable[[Any], Any],
    result: Callable[[Any, list[Any]], Any],
) -> tw.Stream[Any]:
    """Exchange marked records by a key; send a result for each substream when all its markers have come."""

    def build(context: Any) -> Any:
        alignment = Alignment(context.workers)
        rows_of: dict[Any, list[Any]] = {}
        token_of: dict[Any, Any] = {}

        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                if not are_markers(batch):
                    for record in batch:
                        name = substream(record)
                        if name not in rows_of:
                            rows_of[name] = []
                            token_of[name] = token.retain()
                        rows_of[name].append(record)
                    continue
                for name in alignment.complete(batch):
                    if name in rows_of:
                        with token_of.pop(name) as own:
                            output.send(own, [result(name, rows_of.pop(name))])

        return schedule

    return records._unary("collected", build, MarkedExchange(Exchange(key)), notify=False)  # type: ignore[no-any-return]
