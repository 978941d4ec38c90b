"""A worker answers as of times that are complete, and keeps the history that may still be asked for."""

from collections.abc import Sequence
from threading import Lock
from typing import Any

from tidewheel.runtime.messages.questions import Answer, Question, Questions

ACTIVE, OTHER = 3, 5


def read(keys: Sequence[Any], time: int) -> list[Any]:
    return [(key, time) for key in keys]


def answers(questions: Questions) -> list[Answer]:
    sent: list[Answer] = []
    questions.tell(sent.append)
    return sent


def test_a_question_waits_for_its_time() -> None:
    """It has the operator scheduled once; later the frontier does so."""
    activated: list[int] = []
    questions = Questions(activated.append)
    questions.put(Question(1, ACTIVE, ["a"], 2))
    questions.put(Question(2, ACTIVE, ["b"], 2, is_exact=True))
    assert activated == [ACTIVE, ACTIVE]
    questions.answer(ACTIVE, -1, 0, read)
    questions.answer(ACTIVE, 1, 0, read)
    questions.answer(OTHER, 9, 0, read)
    assert answers(questions) == []
    questions.answer(ACTIVE, 4, 1, read)
    assert answers(questions) == [Answer(1, 4, [("a", 4)]), Answer(2, 2, [("b", 2)])]
    questions.answer(ACTIVE, 5, 5, read)
    assert answers(questions) == [], "each is answered once"


def test_an_operator_that_can_is_called_at_once() -> None:
    """So that it need not be scheduled; what another one is asked is no matter to it."""
    activated: list[int] = []
    questions = Questions(activated.append)
    questions.when_asked(ACTIVE, lambda: questions.answer(ACTIVE, 3, 0, read))
    questions.put(Question(1, ACTIVE, ["a"], 2))
    questions.put(Question(2, OTHER, ["b"], 2))
    assert answers(questions) == [Answer(1, 3, [("a", 3)])]
    assert activated == [OTHER]


def test_a_key_that_cannot_be_compared_fails_no_worker() -> None:
    questions = Questions(lambda operator: None)
    questions.put(Question(1, ACTIVE, ["a"], 0))
    questions.answer(ACTIVE, 0, 0, lambda keys, time: [1 // 0])
    [answer] = answers(questions)
    assert answer.found is None
    assert str(answer.problem).startswith("ZeroDivisionError: ")


def test_a_time_before_the_history_is_told_with_its_begin() -> None:
    questions = Questions(lambda operator: None)
    questions.put(Question(1, ACTIVE, ["a"], 2, is_exact=True))
    questions.answer(ACTIVE, 9, 7, read)
    assert answers(questions) == [Answer(1, 7)]


def test_history_stays_while_somebody_may_ask_for_it() -> None:
    """From the least time as of which a question that stays was answered; of that operator only."""
    questions = Questions(lambda operator: None)
    for number, newest in ((1, 4), (2, 6)):
        questions.put(Question(number, ACTIVE, ["a"], 0, stays=True))
        questions.answer(ACTIVE, newest, 0, read)
    assert [questions.since(ACTIVE, 9), questions.since(OTHER, 9)] == [4, 9]
    questions.put(Question(1, ACTIVE))
    assert questions.since(ACTIVE, 9) == 6
    questions.put(Question(2, ACTIVE))
    assert questions.since(ACTIVE, 9) == 9


def test_a_forgotten_question_is_not_answered() -> None:
    questions = Questions(lambda operator: None)
    questions.put(None)
    questions.put(Question(1, ACTIVE, ["a"], 5))
    questions.put(Question(1, ACTIVE))
    questions.answer(ACTIVE, 9, 0, read)
    assert answers(questions) == []


def test_what_cannot_be_pickled_is_said() -> None:
    """The worker does not fail of it, and the next answer is sent."""
    questions, sent = Questions(lambda operator: None), list[Answer]()
    for number in (1, 2):
        questions.put(Question(number, ACTIVE, ["a"], 0))
    questions.answer(ACTIVE, 0, 0, lambda keys, time: [Lock()])

    def send(answer: Answer) -> None:
        if answer.found is not None:
            raise TypeError("no")
        sent.append(answer)

    questions.tell(send)
    assert [answer.number for answer in sent] == [1, 2]
    said = "its values cannot be pickled: TypeError: cannot pickle '_thread.lock'"
    assert all(said in str(answer.problem) for answer in sent)
