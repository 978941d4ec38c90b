"""An operator on one worker that sends markers on."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.alignment import Alignment
from tidewheel.runtime.substreams.markers import EndsHere, Markers, marking

if TYPE_CHECKING:
    from tidewheel.runtime.worker.channel import Channel
    from tidewheel.runtime.worker.input_port import InputPort
    from tidewheel.runtime.worker.worker_core import WorkerCore


class PunctuatedOperator:
    """What one operator on one worker knows of the markers of one declaration.

    Args:
        core: the worker.
        declaration: its number.
        channels: over which it sends markers on.
        activate: has the operator scheduled.
        is_ordered: whether markers go on in the order in which they have come.

    Attributes:
        is_over: whether the last markers have gone on.
    """

    __slots__ = (
        "_alignment",
        "_channels",
        "_core",
        "_declaration",
        "_is_ordered",
        "_last",
        "_ports",
        "_reached",
        "_ready",
        "_tokens",
        "is_over",
    )

    def __init__(
        self,
        core: "WorkerCore",
        declaration: int,
        channels: "Sequence[Channel]",
        activate: Callable[[], None],
        *,
        is_ordered: bool,
    ) -> None:
        self._core = core
        self._declaration = declaration
        self._channels = channels
        self._is_ordered = is_ordered
        self._alignment = Alignment(core, self._end, activate, is_ordered=is_ordered)
        self._ports: list[InputPort] = []
        self._reached: dict[Key, int] = {}
        """At how many inputs nothing of a key is left, if not at all."""
        self._ready: dict[Key, None] = {}
        self._last = 0
        self._tokens: Counter[Key] = Counter()
        self.is_over = False

    def add_input(self, port: "InputPort", senders: Iterable[int]) -> None:
        """Add the channels that come from some workers into an input, before anything has come."""
        port.reach = self._reach
        self._ports.append(port)
        self._alignment.add_input(port, senders)

    def _end(self, keys: Sequence[Key], is_last: bool) -> None:
        """Put ends behind what has come of these substreams, at each input."""
        for port in self._ports:
            if port.firm is None or is_last:  # of the last no keys are told
                port.queue.append(marking(EndsHere(keys, is_last), self._core.worker))
            else:
                port.firm.end(keys)

    def _reach(self, keys: Iterable[Key], is_last: bool) -> None:
        """Take note that the operator has received all of these substreams at an input."""
        inputs = len(self._ports)
        if inputs == 1:
            self._ready.update(dict.fromkeys(keys))
        else:
            for key in keys:
                count = self._reached.pop(key, 0) + 1
                if count == inputs:
                    self._ready[key] = None
                else:
                    self._reached[key] = count
        self._last += is_last

    def count_token(self, key: Key, difference: int) -> None:
        """Take note of tokens of a substream that the operator has, or has no more."""
        self._tokens[key] += difference
        if not self._tokens[key]:
            del self._tokens[key]

    def after_run(self) -> None:
        """Send those markers on that the operator has made ready by a call."""
        for port in self._ports:
            port.pass_ends()
        if self.is_due:
            self._core.count_tokens()
            self.settle()

    @property
    def is_due(self) -> bool:
        """Whether there may be markers to send on."""
        return bool(self._ready) or (self._last == len(self._ports) and not self.is_over)

    def settle(self) -> None:
        """Send those markers on of whose substreams no token is left. The tokens have to be counted."""
        keys: list[Key] = []
        for key in self._ready:
            if key not in self._tokens:
                keys.append(key)
            elif self._is_ordered:
                break
        if keys:
            for key in keys:
                del self._ready[key]
            self._send(Markers(self._declaration, keys))
            self._alignment.release(keys)
        if self._last == len(self._ports) and not self._ready and not self.is_over:
            self.is_over = True
            self._send(Markers(self._declaration, [], is_last=True))

    def _send(self, markers: Markers) -> None:
        for channel in self._channels:
            channel.push_markers(self._core, markers)

    @property
    def remembered(self) -> int:
        """How many substreams it remembers anything of."""
        return len(self._reached) + len(self._ready) + len(self._tokens) + self._alignment.remembered
