"""Which markers have come over which of the channels into one operator on one worker.

Invariants:

- A substream has ended once its marker has come over every channel; as channels keep order, nothing of it comes then.
- What comes of a key over a channel behind its marker is of a substream that uses the key again. It waits until the
  marker has gone on, and so does the end of that.
- What waits counts as taken: sources that were held back by it could not say that its substream has ended.
- Where order is asked for, ends are told in the order in which the last channel has brought their markers. So what
  every channel brings in one order is told in that order.

Source: seed "Substream Management", section "Punctuations framework".
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.labels import MixedLabel
from tidewheel.runtime.substreams.markers import Entry, Markers, divided, taken

if TYPE_CHECKING:
    from tidewheel.runtime.worker.input_port import InputPort
    from tidewheel.runtime.worker.worker_core import WorkerCore


class AlignedInput:
    """One input of an operator: what comes to it goes to the alignment of all channels of the operator.

    Args:
        alignment: that.
        port: the input, which goes on taking what need not wait.
        before: how many bits are those of channels into other inputs.
    """

    __slots__ = ("_alignment", "_before", "deliver", "location")

    def __init__(self, alignment: "Alignment", port: "InputPort", before: int) -> None:
        self._alignment = alignment
        self._before = before
        self.deliver = port.put
        self.location = port.location

    def put(self, entry: Entry) -> None:
        """Take in a message or markers."""
        self._alignment.put(self, 1 << self._before + entry[3], entry)

    @property
    def held(self) -> Iterator[Entry]:
        """What waits here."""
        return self._alignment.held_at(self)


class Alignment:
    """The channels into one operator.

    Args:
        core: the worker.
        end: takes keys that have ended, and whether they are the last.
        activate: has the operator scheduled.
        is_ordered: whether somebody asks for ends in order.
    """

    __slots__ = (
        "_activate",
        "_all",
        "_complete",
        "_core",
        "_early",
        "_end",
        "_finished",
        "_inputs",
        "_is_ordered",
        "_is_over",
        "_lives",
        "_told",
    )

    def __init__(
        self,
        core: "WorkerCore",
        end: Callable[[Sequence[Key], bool], None],
        activate: Callable[[], None],
        *,
        is_ordered: bool,
    ) -> None:
        self._core = core
        self._all = 0
        self._inputs: list[AlignedInput] = []
        self._end = end
        self._activate = activate
        self._is_ordered = is_ordered
        self._lives: dict[Key, list[int]] = {}
        """For each substream that has a key, the oldest first: a bit for each channel that has brought its marker."""
        self._complete: deque[Key] = deque()
        """Keys of substreams that have ended, and are to be told of, in order."""
        self._told: dict[Key, int] = {}
        """Keys of substreams that were told of, and whose markers have not gone on; and how many that had the same key
        have ended since, unless they are told of in order."""
        self._early: dict[Key, list[tuple[int, AlignedInput, Entry]]] = {}
        """What waits, and how many substreams that have its key come before."""
        self._finished = 0
        self._is_over = False

    def add_input(self, port: "InputPort", senders: Iterable[int]) -> None:
        """Add the channels that come from some workers into an input, before anything has come."""
        before = len(self._inputs) * self._core.workers
        self._all |= sum(1 << before + sender for sender in senders)
        port.aligned = AlignedInput(self, port, before)
        self._inputs.append(port.aligned)
        port.put = port.aligned.put

    def held_at(self, place: "AlignedInput") -> Iterator[Entry]:
        """Yield what waits at an input."""
        for entries in self._early.values():
            yield from (entry for _, at, entry in entries if at is place)

    @property
    def remembered(self) -> int:
        """How many keys it remembers anything of."""
        return len(self._lives) + len(self._complete) + len(self._told) + len(self._early)

    def put(self, place: "AlignedInput", bit: int, entry: Entry) -> None:
        """Take in a message or markers from a channel, given by its bit."""
        label = entry[4]
        if isinstance(label, Markers):
            self._mark(bit, label)
        elif not self._lives or label is None:
            place.deliver(entry)
        elif isinstance(label, MixedLabel):
            self._put_mixed(place, bit, entry, label)
        else:
            self._put_one(place, bit, entry, label[1])  # type: ignore[index]  # it is a label

    def _put_mixed(self, place: "AlignedInput", bit: int, entry: Entry, label: MixedLabel) -> None:
        lives = self._lives
        if not any(key in lives and lives[key][0] & bit for key in label.distinct):
            place.deliver(entry)
            return
        parts = divided(entry, label)
        for part in parts[1:]:
            self._core.produce(place.location, part[0])
        for part in parts:
            self.put(place, bit, part)

    def _put_one(self, place: "AlignedInput", bit: int, entry: Entry, key: Key) -> None:
        before = sum(1 for life in self._lives.get(key, ()) if life & bit)
        if before:
            self._early.setdefault(key, []).append((before, place, taken(entry, self._core.flow)))
        else:
            place.deliver(entry)

    def _mark(self, bit: int, markers: Markers) -> None:
        lives, whole = self._lives, self._all
        for key in markers.keys:
            of_key = lives.get(key)
            if of_key is None:
                lives[key] = of_key = [bit]
                life = 0
            else:
                life = next((number for number, seen in enumerate(of_key) if not seen & bit), len(of_key))
                if life == len(of_key):
                    of_key.append(0)
                of_key[life] |= bit
            if of_key[life] == whole:
                self._complete.append(key)
        if self._complete:
            self._tell()
        if markers.is_last:
            self._finished |= bit
            self._tell_last()

    def _tell(self) -> None:
        """Tell of what has ended, but of no key again before its marker has gone on."""
        told, complete = self._told, self._complete
        keys: list[Key] = []
        while complete:
            key = complete[0]
            if key not in told:
                told[key] = 0
                keys.append(key)
            elif self._is_ordered:
                break
            else:
                told[key] += 1
            complete.popleft()
        if keys:
            self._end(keys, False)
            self._activate()

    def release(self, keys: Iterable[Key]) -> None:
        """Take note that the markers of these keys have gone on: let in what uses the keys again."""
        ended: list[Key] = []
        for key in keys:
            more = self._told.pop(key)
            del self._lives[key][0]
            if not self._lives[key]:
                del self._lives[key]
            if key in self._early:
                self._let_in(key)
            if more:
                self._told[key] = more - 1
                ended.append(key)
        if ended:
            self._end(ended, False)
            self._activate()
        if self._complete:
            self._tell()
        self._tell_last()

    def _let_in(self, key: Key) -> None:
        left: list[tuple[int, AlignedInput, Entry]] = []
        for before, place, entry in self._early.pop(key):
            if before == 1:
                place.deliver(entry)
            else:
                left.append((before - 1, place, entry))
        if left:
            self._early[key] = left
        self._activate()

    def _tell_last(self) -> None:
        if self._finished == self._all and not self._lives and not self._is_over:
            self._is_over = True
            self._end([], True)
            self._activate()
