"""The unanswered questions that a relay has sent upstream. No I/O, no clock."""

from dataclasses import dataclass

from tidewheel.pubsub.exactly_once.round_trips import MOST_S, RoundTrips
from tidewheel.pubsub.messages.tick_set import FOREVER, TickSet

_REMEMBERED_S = 4 * MOST_S
"""The time for which an unanswered question is remembered. A child that still needs the answer repeats its question
sooner."""


@dataclass(slots=True)
class _Question:
    ticks: TickSet
    late_s: float
    asked_s: float
    in_vain: int


class Asked:
    """The unanswered questions of a relay; at most one of them asks for any tick.

    >>> asked = Asked()
    >>> asked.ask(TickSet([(5, 8)]), now_s=0.0), asked.ask(TickSet([(5, 9)]), now_s=0.1)
    (TickSet([(5, 8)]), TickSet([(8, 9)]))
    >>> asked.answered(TickSet([(5, 7)]), now_s=0.15, more=False)
    >>> asked.ask(TickSet([(5, 8)]), now_s=0.15), asked.ask(TickSet([(7, 8)]), now_s=60.0)
    (TickSet([(5, 7)]), TickSet([(7, 8)]))
    """

    def __init__(self) -> None:
        self.questions: list[_Question] = []
        self._trips = RoundTrips()

    def ask(self, ticks: TickSet, now_s: float) -> TickSet:
        rest, in_vain = TickSet(ticks), 0
        self.questions = [question for question in self.questions if now_s < question.late_s + _REMEMBERED_S]
        for question in list(self.questions):
            both = rest.intersection(question.ticks)
            if not both:
                continue
            if now_s < question.late_s:
                rest.difference_update(both)
            else:
                in_vain = max(in_vain, question.in_vain + 1)
                self._answer(question, both)
        if rest:
            late_s = now_s + self._trips.wait_s(in_vain)
            self.questions.append(_Question(TickSet(rest), late_s, now_s, in_vain))
        return rest

    def answered(self, ticks: TickSet, now_s: float, *, more: bool) -> None:
        """Record that ticks are known; with ``more``, the answer was cut short before later ticks.

        An open question has no end. Any answer settles it from the answer's first tick on, since upstream has nothing
        more now. If upstream has sent the ticks to all children, an answer that was cut short may have none. Then it is
        unknown which question it answers, and all of them may be asked again.
        """
        if not ticks:
            if more:
                self.questions.clear()
            return
        if more:
            ticks = TickSet([*ticks, (ticks.end, FOREVER)])
        for question in list(self.questions):
            both = question.ticks.intersection(ticks)
            if not both:
                continue
            # Any message answers a question without an end, so the time until the answer is not a round trip.
            if question.ticks.end == FOREVER:
                both.add(both.end, FOREVER)
            elif question.in_vain == 0:
                self._trips.learn(now_s - question.asked_s)
            self._answer(question, both)

    def _answer(self, question: _Question, ticks: TickSet) -> None:
        question.ticks.difference_update(ticks)
        if not question.ticks:
            self.questions.remove(question)
