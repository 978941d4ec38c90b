"""Questions of the driver about the state of operators, such as look-ups by key, and the answers of one worker.

A worker answers for a time that is complete by its own frontier, so it has all records of that time. But the frontiers
of workers differ at any moment. So the driver first asks each worker for its newest complete time, and to keep the
history from that time on. The driver's answer is for the greatest of these times, which is soon complete on all
workers. The driver asks the other workers for that time, and then lets all forget the questions.

So an operator keeps its history from the earliest of these times on:

- the newest complete time,
- the times of its answers to questions with ``stays``.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pickle import PicklingError
from typing import Any, TypeAlias

from tidewheel.transport.frames import unpicklable

ENDED = 2**63 - 1
"""The newest complete time of an operator that can receive nothing more."""

Read: TypeAlias = Callable[[Sequence[Any], int], Sequence[Any]]
"""Called with keys and a time; returns an operator's values of each key as of that time."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to one operator on one worker.

    Attributes:
        number: distinguishes the questions to this worker.
        keys: the keys to look up. None lets the worker forget its question with this number.
        is_exact: whether to answer for ``time``, instead of the newest complete time.
        stays: whether the operator keeps its history from the time of the answer on, until the worker forgets the
            question.
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
        time: the time of the answer; if ``found`` is None, the earliest time for which the operator could answer.
        found: the values of each key; None if the operator's history begins later than the question's time.
    """

    number: int
    time: int
    found: Sequence[Any] | None = None
    problem: str | None = None


class Questions:
    """The questions to the operators of one worker, which answers them between two steps."""

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
        """Run ``call`` whenever a question to the operator arrives, instead of scheduling the operator."""
        self._asked[operator] = call

    def answer(self, operator: int, newest: int, since: int, read: Read) -> None:
        """Answer an operator's questions.

        Its history reaches from ``since`` to the complete time ``newest``, -1 for none.
        """
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
        """Send the answers, and an error instead of each answer that cannot be pickled."""
        while self.answers:
            answer = self.answers.popleft()
            try:
                send(answer)
            except (TypeError, AttributeError, PicklingError) as error:
                reason = unpicklable(answer, error)
                send(replace(answer, found=None, problem=f"its values cannot be pickled: {reason}"))

    def since(self, operator: int, newest: int) -> int:
        return min([newest, *(time for asked, time in self._kept.values() if asked == operator)])
