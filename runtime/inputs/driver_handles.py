"""The driver's handles of a job's inputs, and how they return to a snapshot."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tidewheel.runtime.errors import JobRolledBack
from tidewheel.runtime.inputs.fed_inputs import FedInput
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.messages.envelope import FIRST_HANDLE
from tidewheel.runtime.messages.input_position import InputPosition

Positions: TypeAlias = Mapping[int, InputPosition]
"""The positions of an input's handles in a snapshot, by number."""


class DriverHandles:
    """The first handle of each input of a job, and the return of all handles to a snapshot."""

    def __init__(self, job: str) -> None:
        self._job = job
        self.by_input: dict[str, InputHandle] = {}

    def open(self, fed: FedInput, saved: Positions | None) -> None:
        """Open the handles of an input that are in a snapshot; without a snapshot, open the first handle."""
        name = fed.name
        if saved is None:
            self.by_input[name] = InputHandle(fed, fed.domain.minimum())
            return
        for number, position in saved.items():
            why = f"was closed before the snapshot was taken, with {position.batches} batches: the job has all of them"
            made = InputHandle(
                fed, position.time, number, goes_on_from=position, useless_because=why if position.is_closed else None
            )
            if number == FIRST_HANDLE:
                self.by_input.setdefault(name, made)
                fed.closed_at = position if position.is_closed else None
            elif position.is_first:
                self.by_input[name] = made

    def go_back(self, feed: Feed, saved: Mapping[str, Positions]) -> None:
        """Return all handles to a snapshot, with the new feed.

        Inputs that are not in the snapshot begin anew.
        """
        for name, fed in feed.inputs.items():
            fed.feed = feed
            beginning = {FIRST_HANDLE: InputPosition(fed.domain.minimum())}
            self._rewind(fed, self.by_input[name], saved.get(name, beginning))

    def _rewind(self, fed: FedInput, first: InputHandle, saved: Positions) -> None:
        """Give the driver all handles of a snapshot, as the objects that the program already has.

        A handle that the driver had passed to another process works again in the driver, with its number in the
        snapshot.
        """
        known = {**fed.ended, **fed.open}
        others = {id(handle): handle for handle in (first, *known.values())}
        fed.open.clear()
        fed.handed_over = 0
        place = saved.get(FIRST_HANDLE)
        fed.closed_at = place if place is not None and place.is_closed else None
        for number, position in saved.items():
            if position.is_closed:
                continue
            handle = first if number == FIRST_HANDLE or position.is_first else known.get(number)
            if handle is None or others.pop(id(handle), None) is None:
                handle = InputHandle(fed, position.time, number, useless_because="is new")
            handle._go_back(fed.feed, number, position)
        for handle in others.values():
            handle._go_back(fed.feed, handle.number, None)

    def missed(self, feed: Feed) -> list[InputHandle]:
        """Return the handles for which this thread must send batches again."""
        return [handle for fed in feed.inputs.values() for handle in list(fed.open.values()) if handle._is_missed]

    def tell_of(self, missed: Sequence[InputHandle]) -> None:
        """Raise JobRolledBack if there are ``missed`` handles, whose records the program must send again."""
        if missed:
            for handle in missed:
                handle._untold.tell_this()
            names = ", ".join(sorted({repr(handle.name) for handle in missed}))
            raise JobRolledBack(
                f"job {self._job!r} has gone back to a snapshot, as a worker or feeder has died. So the driver has an "
                f"open handle of input {names} again, at its position in the snapshot. Send again what comes after "
                "that, and close it if it was closed, or hand it over again"
            )
