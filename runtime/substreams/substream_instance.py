"""One operator on one worker, in a dataflow that declares substreams."""

from collections.abc import Callable

from tidewheel.runtime.substreams.substream_input import SubstreamInput
from tidewheel.runtime.substreams.substream_output import SubstreamOutput
from tidewheel.runtime.worker.operator_instance import OperatorInstance

_MOST_SUBSTREAMS = 256
"""The number of substreams that an operator with a firm bound receives in a step, at most."""


class SubstreamInstance(OperatorInstance):
    """An operator whose ports know substreams.

    Attributes:
        firm: those inputs at which it receives each substream in one piece.
    """

    def __init__(self, name: str, notify: bool, clock: Callable[[], float]) -> None:
        super().__init__(name, notify, clock)
        self.firm: tuple[SubstreamInput, ...] = ()

    def _call(self) -> object:
        returned = super()._call()
        if self.firm:
            returned = self._go_on(returned)
        for output in self.outputs:
            assert isinstance(output, SubstreamOutput), "all outputs of this dataflow are"
            output.flush()
        return returned

    def _go_on(self, returned: object) -> object:
        """Schedule the operator again for one substream after the other, as far as these have come; not for ever."""
        for _ in range(_MOST_SUBSTREAMS):
            passed = [port.looked_at for port in self.firm]
            if returned is not None or not any(port.queue for port in self.firm):
                break
            self.schedules += 1
            returned = super()._call()
            if passed == [port.looked_at for port in self.firm]:
                break
        return returned
