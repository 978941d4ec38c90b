"""The commit record: the contents of a folder of epochs, in a size that does not grow with it. No I/O.

Epochs come in a linear extension of their order, and each once it is complete. So whatever is at or before an epoch
that was written, and has rows, was written before it: the maximal times that were written say of every other time
whether it was. Of each partition the newest message that was written is known as well. An epoch that comes again has
none that is newer; one that has comes from another log, and to leave it out would lose it.
"""

import json
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.messages.events import Batch
from tidewheel.spark_bridge.errors import BridgeError

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = (int, float, str, bool, type(None))


class MessagePlace(NamedTuple):
    """Where a batch is in a topic: its partition, and the number of its message there."""

    partition: int
    number: int


def place_of(batch: Batch) -> MessagePlace:
    """Return where a batch is."""
    return MessagePlace(batch.partition, batch.number)


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What is committed once the file with this number is.

    Args:
        file: the number of the newest file; the first is 1, and 0 stands for none.
        times: the maximal times that are committed.
        newest: of each partition the number of the newest message that is committed; 0 for none.
        schema: of all files, as an Arrow IPC message; None before the first file.

    >>> from tidewheel.progress import IntegerDomain
    >>> order = IntegerDomain()
    >>> record = CommitRecord().after(order, [3, 5], [MessagePlace(0, 70), MessagePlace(1, 40)], b"")
    >>> record.file, record.times, record.newest
    (1, (5,), (70, 40))
    >>> record.has(order, 3, [MessagePlace(0, 60)]), record.has(order, 6, [MessagePlace(0, 80)])
    (True, False)
    """

    file: int = 0
    times: tuple[Time, ...] = ()
    newest: tuple[int, ...] = ()
    schema: bytes | None = None

    def has(self, domain: TimeDomain, time: Time, places: Iterable[MessagePlace]) -> bool:
        """Tell whether an epoch is committed. Complexity: O(maximal times + places); the times of integers have one.

        Args:
            domain: the order of the topic's times.
            time: of the epoch.
            places: of those of its batches that have rows.

        Raises:
            BridgeError: its time is committed, and it has batches that are newer than what is.
        """
        if not any(domain.less_equal(time, committed) for committed in self.times):
            return False
        if any(place.number > self._newest(place.partition) for place in places):
            raise BridgeError(
                f"epoch {time!r} was written before, from other batches: the topic does not come from the same log any "
                "more. Write what another run publishes to another path, with another checkpoint"
            )
        return True

    def after(
        self, domain: TimeDomain, times: Iterable[Time], places: Iterable[MessagePlace], schema: bytes
    ) -> "CommitRecord":
        """Return the record of the next file, which has epochs of these times, of these batches."""
        maximal = list(self.times)
        for time in times:
            maximal = [kept for kept in maximal if not domain.less_equal(kept, time)]
            maximal.append(time)
        newest = list(self.newest)
        for place in places:
            newest += [0] * (place.partition + 1 - len(newest))
            newest[place.partition] = max(newest[place.partition], place.number)
        return replace(self, file=self.file + 1, times=tuple(maximal), newest=tuple(newest), schema=schema)

    def _newest(self, partition: int) -> int:
        return self.newest[partition] if partition < len(self.newest) else 0

    def arrow_schema(self) -> "pa.Schema | None":
        """Return the schema of all files; None before the first."""
        import pyarrow as pa

        return None if self.schema is None else pa.ipc.read_schema(pa.py_buffer(self.schema))

    # ------------------------------------------------------------------ as text

    def to_json(self) -> str:
        """Return the record as text.

        Raises:
            BridgeError: a time is of a kind that text does not keep.
        """
        fields = {
            "file": self.file,
            "times": plain_times(self.times),
            "newest": self.newest,
            "schema": None if self.schema is None else self.schema.hex(),
        }
        return json.dumps(fields, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "CommitRecord":
        """Return the record of some text; raise ValueError, KeyError or TypeError if it is none."""
        fields = json.loads(text)
        schema = fields["schema"]
        return cls(
            operator.index(fields["file"]),
            tuple(map(_time, fields["times"])),
            tuple(map(operator.index, fields["newest"])),
            None if schema is None else bytes.fromhex(schema),
        )


def plain_times(times: Sequence[Time]) -> list[Any]:
    """Return times as what JSON has: numbers, text, and lists for tuples.

    >>> plain_times([(1, ("a", 2)), 3])
    [[1, ['a', 2]], 3]

    Raises:
        BridgeError: there are others.
    """
    return [_plain(time) for time in times]


def _plain(time: Time) -> Any:
    if type(time) in _PLAIN:
        return time
    if type(time) is tuple:
        return [_plain(part) for part in time]
    if hasattr(time, "__index__"):
        return operator.index(time)
    raise BridgeError(
        f"the time {time!r} is a {type(time).__qualname__}, and a checkpoint keeps integers, texts and tuples of them: "
        "publish such times"
    )


def _time(plain: Any) -> Time:
    return tuple(map(_time, plain)) if isinstance(plain, list) else plain
