"""The Ray actor that has one model of a pool.

It is stateless for the pool: any other actor makes its calls as well. Calls of all workers run one after the other.
"""

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from traceback import format_tb
from typing import Any

import cloudpickle

from tidewheel.batches.batches import copy_of
from tidewheel.host.log_lines import LogSettings
from tidewheel.operators.pools.model import MakeModel, Model, called_model, made_model


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a batch for which the model has raised."""

    error: BaseException


class ModelActor:
    """Makes a model, and calls it.

    An error of the model's constructor is kept for `ready`: Ray would report it as the death of the actor.
    """

    def __init__(self, label: str, make: MakeModel, logs: LogSettings) -> None:
        self._label = label
        logs.use()
        self._model: Model | None = None
        self._failure: Failure | None = None
        try:
            self._model = made_model(make)
        except Exception as error:  # noqa: BLE001 - `ready` raises it
            self._failure = self._failed(error)

    def __repr__(self) -> str:
        """Return the label in Ray's dashboard, which also precedes each line of output in the driver."""
        return self._label

    def ready(self) -> None:
        """Return once the model is made; raise what its constructor has raised."""
        if self._failure is not None:
            raise self._failure.error

    def call(self, batches: Sequence[Any]) -> tuple[list[Any], float]:
        """Return what the model returns for each batch, or a `Failure`, and the seconds that all have taken."""
        self.ready()
        began_s = time.perf_counter()
        # Ray writes all results at the end, and a model may use the array of one result for the next one.
        outcomes = (
            [self._outcome(batches[0])] if len(batches) == 1 else [copy_of(self._outcome(one)) for one in batches]
        )
        return outcomes, time.perf_counter() - began_s

    def _outcome(self, batch: Any) -> Any:
        assert self._model is not None, "it is ready"
        try:
            return called_model(self._model, batch)
        except Exception as error:  # noqa: BLE001 - the call in the worker raises it
            return self._failed(error)

    def _failed(self, error: Exception) -> Failure:
        """Return a failure that can be pickled, with a note of the lines that have raised it."""
        raised = error.__traceback__ and error.__traceback__.tb_next
        lines = "".join(format_tb(raised)).rstrip()
        if not _can_travel(error):
            error = RuntimeError(f"{type(error).__name__}: {error}")
        error.add_note(f"In {self._label}:\n{lines}")
        return Failure(error)


def _can_travel(error: Exception) -> bool:
    """Tell whether an error can be pickled and unpickled, for which `args` must fit its constructor."""
    try:
        pickle.loads(cloudpickle.dumps(error))  # noqa: S301 - it was pickled here
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return False
    return True
