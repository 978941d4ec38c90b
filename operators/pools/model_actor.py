"""The Ray actor that has one model of a pool.

It is stateless for the pool: any other actor makes its calls as well. Calls of all workers run one after the other.
"""

from traceback import format_tb
from typing import Any

from tidewheel.host.log_lines import LogSettings
from tidewheel.operators.pools.model import MakeModel, Model, made_model


class ModelActor:
    """Makes a model, and calls it.

    An error of the model's constructor is kept for `ready`: Ray would report it as the death of the actor.
    """

    def __init__(self, label: str, make: MakeModel, logs: LogSettings) -> None:
        self._label = label
        logs.use()
        self._model: Model | None = None
        self._failure: Exception | None = None
        try:
            self._model = made_model(make)
        except Exception as error:  # noqa: BLE001 - `ready` raises it
            self._failure = self._with_lines(error)

    def __repr__(self) -> str:
        """Return the label in Ray's dashboard, which also precedes each line of output in the driver."""
        return self._label

    def ready(self) -> None:
        """Return once the model is made; raise what its constructor has raised."""
        if self._failure is not None:
            raise self._failure

    def call(self, batch: Any) -> Any:
        self.ready()
        assert self._model is not None, "it is ready"
        try:
            return self._model(batch)
        except Exception as error:
            self._with_lines(error)
            raise

    def _with_lines(self, error: Exception) -> Exception:
        """Note in an error which lines have raised it, since a traceback cannot be pickled."""
        raised = error.__traceback__ and error.__traceback__.tb_next
        error.add_note(f"In {self._label}:\n{''.join(format_tb(raised)).rstrip()}")
        return error
