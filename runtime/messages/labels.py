"""The label of a message: the substreams of its records.

If all records are of one substream, the label is (number of the declaration, key), as for tokens. Records of several
substreams can share a message, so that small substreams need no message each; then the label has the key of each
record.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tidewheel.batches.batches import Batch, is_arrow, scatter, without_views
from tidewheel.progress.substream_tracker import Key

if TYPE_CHECKING:
    import numpy.typing as npt


Label: TypeAlias = tuple[int, Key]
"""A substream: the number of the declaration, and the key."""


class MixedLabel:
    """The label of a message with several substreams: the key of each record, in order, and the distinct keys."""

    __slots__ = ("declaration", "distinct", "keys")

    def __init__(self, declaration: int, keys: list[Key]) -> None:
        self.declaration = declaration
        self.keys = keys
        self.distinct = dict.fromkeys(keys)

    def __reduce__(self) -> tuple[Any, ...]:
        return MixedLabel, (self.declaration, self.keys)


Labels: TypeAlias = Label | MixedLabel


def labels_of(declaration: int, keys: list[Key]) -> Labels:
    made = MixedLabel(declaration, keys)
    return (declaration, keys[0]) if len(made.distinct) == 1 else made


def parts_by_key(batch: Batch, keys: Sequence[Key]) -> Iterator[tuple[Key, Batch]]:
    """Yield the records of each key, in their order, as a batch of the same kind."""
    if isinstance(batch, list):
        groups: dict[Key, list[Any]] = {}
        for key, record in zip(keys, batch, strict=True):
            groups.setdefault(key, []).append(record)
        yield from groups.items()
        return
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    if len(places) == 1:
        yield keys[0], batch
        return
    if is_arrow(batch):
        batch = without_views(batch)
    for key, of_key in places.items():
        yield key, batch.take(of_key) if is_arrow(batch) else batch[of_key]


def divide_by_owner(
    batch: Batch, label: MixedLabel, owners: "list[int] | npt.NDArray[Any]", workers: int
) -> Iterator[tuple[int, Batch, Labels]]:
    keys: list[list[Key]] = [[] for _ in range(workers)]
    owned: list[int] = owners if isinstance(owners, list) else owners.tolist()
    for key, owner in zip(label.keys, owned, strict=True):
        keys[owner].append(key)
    for worker, part in enumerate(scatter(batch, owned, workers)):
        if keys[worker]:
            yield worker, part, labels_of(label.declaration, keys[worker])


@dataclass(frozen=True, slots=True)
class EndOfSubstream:
    """A mark among records that are yet to be divided: no record with this key follows it."""

    key: Any


def is_mark(record: object) -> bool:
    return type(record) is EndOfSubstream
