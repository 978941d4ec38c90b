"""Operators that take one record, or one batch, at a time and look at nothing else."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from tidewheel.operators.stream_base import StreamBase, check_function
from tidewheel.runtime.batches import Batch, records

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream

Record = TypeVar("Record")
Result = TypeVar("Result")


class RecordOperators(StreamBase[Record]):
    """What streams offer for single records and batches."""

    __slots__ = ()

    def map(self, function: Callable[[Record], Result]) -> "Stream[Result]":
        """Replace each record by ``function(record)``."""
        check_function("map", function)
        return self._stage("map", lambda batch: [function(record) for record in records(batch)])

    def flat_map(self, function: Callable[[Record], Iterable[Result]]) -> "Stream[Result]":
        """Replace each record by all that ``function(record)`` yields."""
        check_function("flat_map", function)
        return self._stage(
            "flat_map", lambda batch: [result for record in records(batch) for result in function(record)]
        )

    def filter(self, predicate: Callable[[Record], object]) -> "Stream[Record]":
        """Keep the records for which ``predicate(record)`` is true."""
        check_function("filter", predicate)
        return self._stage("filter", lambda batch: [record for record in records(batch) if predicate(record)])

    def map_batches(self, function: Callable[[Any], Batch]) -> "Stream[Any]":
        """Replace each batch, as it is, by ``function(batch)``; an empty result is not sent."""
        check_function("map_batches", function)
        return self._stage("map_batches", function)

    def inspect(self, function: Callable[[Record], object]) -> "Stream[Record]":
        """Call ``function`` with each record and pass the batch on unchanged."""
        check_function("inspect", function)

        def look(batch: Batch) -> Batch:
            for record in records(batch):
                function(record)
            return batch

        return self._stage("inspect", look)
