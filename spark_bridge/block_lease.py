"""Ray objects kept alive while Spark can still read them.

A DataFrame made from Ray objects knows them by name only; Ray frees an object when the last Python reference to it
goes, and Spark then fails at some later action. Holding the references in the Python DataFrame would not do: DataFrames
derived from it, joins and temporary views read the same objects after it is gone. What all of these share is the RDD in
the driver's JVM, so a lease is held until the JVM has collected that RDD, which a weak reference tells.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray import ObjectRef

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Lease:
    rdd: Any  # a java.lang.ref.WeakReference
    references: "tuple[ObjectRef[bytes], ...]"


class BlockLeases:
    """The leases of one Spark driver."""

    def __init__(self) -> None:
        self._leases: list[_Lease] = []

    def __len__(self) -> int:
        return len(self._leases)

    def hold(self, jvm: Any, rdd: Any, references: "Sequence[ObjectRef[bytes]]") -> None:
        """Keep ``references`` until the JVM has collected ``rdd``; expired leases are dropped on this occasion."""
        self.prune()
        self._leases.append(_Lease(jvm.java.lang.ref.WeakReference(rdd), tuple(references)))

    def prune(self) -> None:
        """Drop the leases of RDDs that the JVM has collected."""
        before = len(self._leases)
        self._leases = [lease for lease in self._leases if not lease.rdd.refersTo(None)]
        if len(self._leases) < before:
            _logger.debug("dropped the blocks of %d DataFrame(s)", before - len(self._leases))

    def clear(self) -> None:
        """Drop every lease: Spark has stopped."""
        self._leases.clear()


LEASES = BlockLeases()
"""The leases of the Spark session of this process, of which there is one at a time."""
