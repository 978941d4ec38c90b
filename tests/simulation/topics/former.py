"""Topics by the publisher and by the one that it has replaced, as a command: every subscriber is told the same by both.

``python -m tests.simulation.topics.former --runs 100000`` compares them under as many seeds. The former publisher is a
copy in `tests/kit/former_topics`. It changes only where the promises do.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import partial

from tests.kit.former_topics.publisher import FormerPublisher
from tests.kit.simulation.command import run_simulations
from tests.kit.simulation.first_failure import report_on_first
from tests.kit.simulation.violation import ViolationError, broken_promise
from tests.simulation.scenario import TOPICS, Scenario
from tests.simulation.topics.topic_simulation import TopicSimulation

_MODULE = "tests.simulation.topics.former"


def compare(scenario: Scenario) -> ViolationError | None:
    """Run a scenario with both; return what differs, or the promise that was broken, if there is one."""

    def run() -> None:
        topic = scenario.topic
        assert topic is not None, "the world has a topic without a log"
        now, formerly = TopicSimulation(topic).run(), TopicSimulation(topic, publisher=FormerPublisher).run()
        for number in range(len(topic.readers)):
            told, expected = now.ends(number), formerly.ends(number)
            if told != expected:
                raise ViolationError("former", f"subscriber {number} is told {told}, and was formerly told {expected}")

    return broken_promise(run)


def report_on(seeds: Iterable[int]) -> str | None:
    """Return the report on the first difference among the scenarios of some seeds; None if there is none."""
    return report_on_first(seeds, partial(Scenario.of, has=TOPICS), compare, _MODULE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare as often as the command line asks for; return the exit code."""
    return run_simulations(_MODULE, __doc__, {"topics": report_on}, arguments)


if __name__ == "__main__":
    sys.exit(main())
