"""An operator that is slower than what feeds it."""

from typing import Any

import tidewheel as tw


def build_slow(context: tw.OperatorContext) -> Any:
    """Build an operator that takes one message a step."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            output.send(lent, batch)
            break

    return schedule
