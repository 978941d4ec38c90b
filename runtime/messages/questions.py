"""Questions of the driver about operators' state, such as look-ups by key, and one worker's answers.

A worker answers for a time that is complete by its own frontier, so it has everything of that time. At one moment,
workers see different frontiers complete. So the driver has each answer for its newest complete time, and keep its
history from there on. Every worker keeps the greatest of these times, and soon sees it complete; the driver asks the
others again for it, and then lets all forget the questions.

So an operator keeps its history from the least of these times on:

- the newest complete time,
- the times for which it has answered a question that stays.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pickle import PicklingError
from typing import Any, TypeAlias

from tidewheel.transport.frames import unpicklable

ENDED = 2**63 - 1
"""The newest time that is complete when nothing can come any more."""

Read: TypeAlias = Callable[[Sequence[Any], int], Sequence[Any]]
"""Returns the values that an operator has for each of some keys, as of a time."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to one operator on one worker.

    Attributes:
        number: unique among the questions to this worker.
        keys: the keys in question; None lets the worker forget the question with this number.
        is_exact: whether the answer is for that time, not for the newest complete one.
        stays: whether the operator keeps its history from the answer's time on until it forgets the question.
    """

    number: int
    operator: int
    keys: Sequence[Any] | None = None
    time: int = 0
    is_exact: bool = False
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    Attributes:
        time: the time of the answer; if ``found`` is None, the earliest possible one.
        found: the values of each key; None if the history begins later.
    """

    number: int
    time: int
    found: Sequence[Any] | None = None
    problem: str | None = None


class Questions:
    """The questions to the operators of one worker, which are answered between two steps."""

    def __init__(self, activate: Callable[[int], None]) -> None:
        self._activate = activate
        self._open: dict[int, Question] = {}
        self._kept: dict[int, tuple[int, int]] = {}
        self._asked: dict[int, Callable[[], object]] = {}
        self.answers: deque[Answer] = deque()

    def put(self, question: Question | None) -> None:
        if question is None:
            return
        self._open.pop(question.number, None)
        self._kept.pop(question.number, None)
        if question.keys is not None:
            self._open[question.number] = question
            self._asked.get(question.operator, partial(self._activate, question.operator))()

    def when_asked(self, operator: int, call: Callable[[], object]) -> None:
        """Call ``call`` when a question arrives, instead of scheduling the operator."""
        self._asked[operator] = call

    def answer(self, operator: int, newest: int, since: int, read: Read) -> None:
        """Answer, given the newest complete time (-1 for none) and the start of the history."""
        if not self._open:
            return
        for question in list(self._open.values()):
            if question.operator != operator or question.time > newest or question.keys is None:
                continue
            del self._open[question.number]
            time = question.time if question.is_exact else newest
            if time < since:
                self.answers.append(Answer(question.number, since))
                continue
            try:
                self.answers.append(Answer(question.number, time, read(question.keys, time)))
            except Exception as error:  # noqa: BLE001 - a user's key may raise anything when it is compared
                self.answers.append(Answer(question.number, time, problem=f"{type(error).__name__}: {error}"))
            if question.stays:
                self._kept[question.number] = operator, time

    def tell(self, send: Callable[[Answer], object]) -> None:
        """Send the answers; an error replaces one that cannot be pickled."""
        while self.answers:
            answer = self.answers.popleft()
            try:
                send(answer)
            except (TypeError, AttributeError, PicklingError) as error:
                reason = unpicklable(answer, error)
                send(replace(answer, found=None, problem=f"its values cannot be pickled: {reason}"))

    def since(self, operator: int, newest: int) -> int:
        return min([newest, *(time for asked, time in self._kept.values() if asked == operator)])
