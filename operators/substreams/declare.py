"""The operator that gives records the keys of their substreams, where they do not come right from an input."""

from tidewheel.operators.substreams.labeller import Labeller, SubstreamKeys
from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, Schedule


def build_declare(how: SubstreamKeys) -> Build:
    """Return the build function of an operator on the worker that owns a key, which says when that has ended."""

    def build(context: OperatorContext) -> Schedule:
        labeller = Labeller(context, how)

        def schedule(input: InputPort, output: OutputPort) -> None:
            labeller.go_on(output)
            for token, batch in input:
                labeller.send(output, token, batch)
            frontier = input.frontier
            labeller.pass_to(frontier.less_equal)
            if not len(frontier):
                labeller.finish()

        return schedule

    return build
