"""The input operator: one worker's end of what the driver feeds."""

from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Schedule
from tidewheel.runtime.ports import OutputPort


def build_input(context: OperatorContext) -> Schedule:
    """Build an operator that does what its mailbox says, holding the token that the driver's handle stands for."""
    token = context.token()

    def schedule(output: OutputPort) -> None:
        while context.mailbox and not (context.is_held and context.mailbox[0].action == "send"):
            command = context.mailbox.popleft()
            if command.action == "send":
                context.taken += command.size
                output.send(token, command.batch)
            elif command.action == "advance":
                token.downgrade(command.time)
            else:
                token.discard()

    return schedule
