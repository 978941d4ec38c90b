"""Operators that decide where records go on."""

from typing import TYPE_CHECKING, TypeVar

from tidewheel.operators.forward import build_pass
from tidewheel.operators.stream_base import StreamBase
from tidewheel.progress import GraphError
from tidewheel.runtime.exchange import Key

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream

Record = TypeVar("Record")


class RoutingOperators(StreamBase[Record]):
    """What streams offer to bring records together and apart."""

    __slots__ = ()

    def exchange(self, key: Key) -> "Stream[Record]":
        """Send each record to the worker that owns its key, the same for every stream and every kind of batch.

        Args:
            key: a function of a record, the name of a column (vectorised on Arrow), or a tuple of names.
        """
        if key is None:
            raise GraphError("operator 'exchange': exchange by a function of a record, a name or names, not None")
        return self._stage("exchange", lambda batch: batch, key)

    def concat(self, *others: "Stream[Record]") -> "Stream[Record]":
        """Join this stream with others of the same scope; each record stays on its worker."""
        (made,) = self._operator("concat", others, 1, build_pass, notify=False)
        return made
