"""Messages of substreams, and the mark that ends one at an input with a firm bound."""

from dataclasses import dataclass
from typing import Any, ClassVar

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.labels import Labels, MixedLabel, parts_by_key
from tidewheel.runtime.worker.message import Message
from tidewheel.transport.pickling import pack, unpack


class LabelledMessage(Message, frozen=True, array_like=True):
    """A message whose records belong to the substreams that ``label`` says."""

    label: Labels | None = None

    def divided(self) -> "list[LabelledMessage]":
        """Return one message for each substream, in place of this one of several.

        The last counts for the bytes of all.
        """
        label = self.label
        assert isinstance(label, MixedLabel), "a message of one substream is not divided"
        *parts, (last_key, last) = parts_by_key(self.batch, label.keys)
        made = [
            LabelledMessage(self.target, self.time, part, 0, self.sender, (label.declaration, key))
            for key, part in parts
        ]
        last_label = label.declaration, last_key
        return [*made, LabelledMessage(self.target, self.time, last, self.size, self.sender, last_label)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _labelled, (self.target, self.time, pack(self.batch), self.size, self.sender, self.label)


@dataclass(frozen=True, slots=True)
class EndOfPiece:
    """The end of a substream in the queue of an input with a firm bound: the input has received all of it."""

    key: Key
    size: ClassVar[int] = 0


def _labelled(target: int, time: Time, packed: Any, size: int, sender: int, label: Labels | None) -> LabelledMessage:
    return LabelledMessage(target, time, unpack(packed), size, sender, label)
