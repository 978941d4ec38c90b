"""A debug mode in which an operator fails if it changes a record that it has received.

The records are pickled before and after each call, so a run takes many times as long. Records that cannot be pickled,
immutable Arrow batches, and changes after the call are not checked.
"""

import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tidewheel.batches.batches import Batch, is_arrow, records
from tidewheel.runtime.description.plan import Build, OperatorPlan, Plan, Schedule, Stage, checked_schedule
from tidewheel.runtime.messages.envelope import Message
from tidewheel.transport.frames import dumps


def checked(plan: Plan, is_wanted: bool) -> Plan:
    return plan if not is_wanted else replace(plan, operators=tuple(map(_checked_operator, plan.operators)))


def _checked_operator(operator: OperatorPlan) -> OperatorPlan:
    build = _checked_build(operator.build, len(operator.sources)) if operator.sources else operator.build
    return replace(operator, stages=tuple(map(_checked_stage, operator.stages)), build=build)


def _checked_stage(stage: Stage) -> Stage:
    keyed = None if stage.with_keys is None else _unchanging(stage.with_keys)
    return replace(stage, transform=_unchanging(stage.transform), with_keys=keyed)


def _unchanging(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(batch: Batch, *keys: Any) -> Any:
        before = _pickled(batch)
        made = function(batch, *keys)
        _check([(batch, before)])
        return made

    return call


def _checked_build(build: Build, inputs: int) -> Build:
    def build_checked(context: Any) -> Schedule:
        schedule = checked_schedule(build(context))

        def schedule_checked(*ports: Any) -> Any:
            waiting = [one for port in ports[:inputs] for one in port._running.queue if isinstance(one, Message)]
            before = [(message.batch, _pickled(message.batch)) for message in waiting]
            returned: object = schedule(*ports)
            _check(before)
            return returned

        return schedule_checked

    return build_checked


def _pickled(batch: Batch) -> bytes | None:
    try:
        return None if is_arrow(batch) else dumps(batch)
    except Exception:  # noqa: BLE001 - a record may raise anything when it is pickled
        return None


def _check(before: Iterable[tuple[Batch, bytes | None]]) -> None:
    for batch, pickled in before:
        if pickled is not None and _pickled(batch) != pickled:
            received = pickle.loads(pickled)  # noqa: S301 - pickled right here
            both = zip(map(repr, records(received)), map(repr, records(batch)), strict=False)
            was, now = next((pair for pair in both if pair[0] != pair[1]), ("a record", "another"))
            raise ValueError(
                f"it has changed a record that it received, {was:.100}, to {now:.100}. Other operators may read that "
                "record, too: return a new one"
            )
