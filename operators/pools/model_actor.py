"""The Ray actor that has one model of a pool.

It is stateless for the pool: any other actor makes its calls as well. Calls of all workers run one after the other.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from traceback import format_tb
from typing import Any

from tidewheel.host.log_lines import LogSettings
from tidewheel.operators.pools.model import MakeModel, Model, made_model
from tidewheel.transport.frames import unpicklable


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
        outcomes = [self._outcome(batch) for batch in batches]
        return outcomes, time.perf_counter() - began_s

    def _outcome(self, batch: Any) -> Any:
        assert self._model is not None, "it is ready"
        try:
            return self._model(batch)
        except Exception as error:  # noqa: BLE001 - the call in the worker raises it
            return self._failed(error)

    def _failed(self, error: Exception) -> Failure:
        """Return a failure that can be pickled, with a note of the lines that have raised it."""
        raised = error.__traceback__ and error.__traceback__.tb_next
        lines = "".join(format_tb(raised)).rstrip()
        if unpicklable(error) is not None:
            error = RuntimeError(f"{type(error).__name__}: {error}")
        error.add_note(f"In {self._label}:\n{lines}")
        return Failure(error)
