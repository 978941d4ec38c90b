"""Ray objects kept alive while Spark can still read them.

A DataFrame made from Ray objects knows them by name only; Ray frees an object when the last Python reference to it
goes, and Spark then fails at some later action. Holding the references in the Python DataFrame would not do: DataFrames
derived from it, joins and temporary views read the same objects after it is gone. What all of these share is the RDD in
the driver's JVM, so a lease is held until the JVM has collected that RDD, which a weak reference tells.

The JVM collects when its own heap is full, and knows nothing of how much there is in the object store: so it is asked
to, when much has been leased since the last time.
"""

import gc
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray import ObjectRef

_logger = logging.getLogger(__name__)

BYTES_BETWEEN_COLLECTIONS = 256 * 2**20
LEASES_BETWEEN_COLLECTIONS = 200
"""After how much has been leased the JVM is asked to collect what nobody can reach."""


@dataclass(frozen=True, slots=True)
class _Lease:
    rdd: Any  # a java.lang.ref.WeakReference
    references: "tuple[ObjectRef[bytes], ...]"


class BlockLeases:
    """The leases of one Spark driver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: list[_Lease] = []
        self._collected: Any = None
        """The java.lang.ref.ReferenceQueue in which the JVM puts what it has collected."""
        self._new_leases = 0
        self._new_bytes = 0

    def __len__(self) -> int:
        return len(self._leases)

    def hold(self, jvm: Any, rdd: Any, references: "Sequence[ObjectRef[bytes]]", size: int) -> None:
        """Keep ``references`` until the JVM has collected ``rdd``; expired leases are dropped on this occasion.

        Args:
            jvm: the driver's.
            rdd: what reads the blocks.
            references: the blocks.
            size: how many bytes they are.
        """
        with self._lock:
            if self._collected is None:
                self._collected = jvm.java.lang.ref.ReferenceQueue()
            self._leases.append(_Lease(jvm.java.lang.ref.WeakReference(rdd, self._collected), tuple(references)))
            self._new_leases += 1
            self._new_bytes += size
            is_much = self._new_leases > LEASES_BETWEEN_COLLECTIONS or self._new_bytes > BYTES_BETWEEN_COLLECTIONS
            if is_much:
                self._new_leases = self._new_bytes = 0
        if is_much:
            gc.collect()  # which lets go of what Python has of the JVM's objects
            jvm.System.gc()
        self.prune(look=is_much)

    def prune(self, *, look: bool = False) -> None:
        """Drop the leases of RDDs that the JVM has collected.

        Args:
            look: also at those that it has collected just now, and not put into its queue yet.
        """
        with self._lock:
            leases, collected = list(self._leases), self._collected
        # Each lease is asked about only when there is news of one: a call takes long among thousands of leases.
        if collected is None or (collected.poll() is None and not look):
            return
        while collected.poll() is not None:
            pass
        expired = {id(lease) for lease in leases if lease.rdd.refersTo(None)}
        with self._lock:
            self._leases = [lease for lease in self._leases if id(lease) not in expired]
        _logger.debug("dropped the blocks of %d DataFrame(s)", len(expired))

    def clear(self) -> None:
        """Drop every lease: Spark has stopped."""
        with self._lock:
            self._leases.clear()
            self._collected = None


LEASES = BlockLeases()
"""The leases of the Spark session of this process, of which there is one at a time."""
