"""The input operator: one worker's end of what is fed from outside."""

from tidewheel.operators.records.record_kind import Check
from tidewheel.runtime.envelope import FIRST_HANDLE
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Build, Schedule
from tidewheel.runtime.ports import OutputPort


def build_input(check: Check | None = None) -> Build:
    """Return the build function of an operator that does what its mailbox says.

    It holds the tokens that the handles of the input stand for; each batch goes through ``check`` first.
    """

    def build(context: OperatorContext) -> Schedule:
        mailbox = context.mailbox
        assert mailbox is not None, "the plan says which operators are inputs"
        tokens = mailbox.tokens
        tokens[FIRST_HANDLE] = context.token()

        def schedule(output: OutputPort) -> None:
            while mailbox and not (context.is_held and mailbox.next_sends):
                command = mailbox.take()
                if command.action == "send":
                    token = tokens[command.handle]
                    batch = command.batch
                    if check is not None:
                        context.working_at(token.time)
                        batch = check(batch)
                    output.send(token, batch)
                elif command.action == "advance":
                    tokens[command.handle].downgrade(command.time)
                elif command.action == "clone":
                    tokens[command.handle] = tokens[command.origin].delayed(command.time)
                else:
                    tokens.pop(command.handle).discard()

        return schedule

    return build
