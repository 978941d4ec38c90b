"""Faults in what messages and tokens are for."""

from collections import deque
from collections.abc import Callable
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.runtime.description.pacts import Exchange
from tidewheel.runtime.messages.envelope import InputCommand
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.agenda import Agenda
from tidewheel.runtime.worker.mailbox import Mailbox
from tidewheel.runtime.worker.ports import Channel


def message_lost() -> Injection:
    return replaced(Channel, "push", lambda _: lambda *_: None)


def message_repeated() -> Injection:
    def make(push: Callable[..., None]) -> Callable[..., None]:
        def wrong_push(*arguments: Any) -> None:
            push(*arguments)
            push(*arguments)

        return wrong_push

    return replaced(Channel, "push", make)


def records_astray() -> Injection:
    def make(split: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def wrong_split(*arguments: Any) -> list[Any]:
            *parts, last = split(*arguments)
            return [last, *parts]

        return wrong_split

    return replaced(Exchange, "split", make)


def early_command_lost() -> Injection:
    """Forget what is said by a handle that was handed over and is not known yet."""

    def make(put: Callable[..., None]) -> Callable[..., None]:
        def wrong_put(mailbox: Mailbox, feeder: int, command: InputCommand) -> None:
            put(mailbox, feeder, command)
            kept = {one: [said for said in early if said.action != "send"] for one, early in mailbox._early.items()}
            mailbox._early = {one: deque(early) for one, early in kept.items() if early}

        return wrong_put

    return replaced(Mailbox, "put", make)


def activation_unheard() -> Injection:
    def wrong(agenda: Agenda, operator: int) -> None:
        agenda._later.append(operator)

    return replaced(Agenda, "activate_later", lambda _: wrong)


def scheduled_twice() -> Injection:
    def wrong(agenda: Agenda, operator: int) -> None:
        if 0 <= agenda.running < operator:
            agenda._current.append(operator)
            agenda._current.sort()
        else:
            agenda._next.add(operator)

    return replaced(Agenda, "activate", lambda _: wrong)


def token_that_goes_back() -> Injection:
    return replaced(TimestampToken, "_checked", lambda _: lambda token, time, action: time)


def token_lent_for_ever() -> Injection:
    return replaced(LentToken, "_check_lent", lambda _: lambda lent: None)
