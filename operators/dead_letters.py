"""The stream of records that operators and sources of a dataflow have set aside."""

from typing import TYPE_CHECKING, Any

from tidewheel.operators.base.batchwise import build_pass
from tidewheel.operators.base.failed_record import FailedRecord
from tidewheel.operators.base.setting_aside import Caught
from tidewheel.operators.stream import Stream
from tidewheel.runtime.description.dataflow_description import description_of

if TYPE_CHECKING:
    from tidewheel.operators.dataflow import Dataflow


class DeadLetters(Stream[FailedRecord[Any]]):
    """A stream of failed records, to which operators and sources add.

    A program may add them before or after the readers of the stream. A failed record has the time of the original,
    without the coordinates of loops. It belongs to no substream.
    """

    __slots__ = ("_caught",)

    def __init__(self, flow: "Dataflow", name: str, caught: Caught) -> None:
        description = description_of(flow)
        (outlet,) = description.add_operator(name, [], [description.root], build_pass, notify=False, by_substream=True)
        super().__init__(flow, outlet)
        self._caught = caught

    def _receive(self, letters: Stream[Any]) -> None:
        name = self._description.describe(self._outlet.source).strip("'")
        if letters._outlet.substreams:
            letters = letters.without_substreams(name=f"{name}: without_substreams")
        while letters._outlet.scope is not self._outlet.scope:
            letters = letters.leave(name=f"{name}: leave")
        self._description.add_input(self._outlet, letters._outlet)
