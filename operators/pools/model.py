"""The model of a pool: what makes it, and the checks of what was made."""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from tidewheel.progress import GraphError
from tidewheel.progress.redaction import called

Model: TypeAlias = Callable[[Any], Any]
"""Called with a batch; returns a batch with the result of each record."""

MakeModel: TypeAlias = Callable[[], Model]
"""A class of models, or a function that returns one."""


def check_maker(make: object) -> None:
    """Raise GraphError unless ``make`` can be called without arguments, as far as its signature tells."""
    if not callable(make):
        raise GraphError(f"map_actors takes a class whose objects are called with a batch, not {make!r}")
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise GraphError(
            f"map_actors calls {called(make)} without arguments in each actor, to make the model: {error}. Pass "
            "functools.partial(Model, ...) for a class with arguments, and the class rather than an object of it"
        ) from None
    except ValueError:  # such as some classes of extension modules, which tell no signature
        pass


def called_model(model: Model, batch: Any) -> Any:
    """Return the result of a batch; raise RuntimeError in place of StopIteration, which no future can raise."""
    try:
        return model(batch)
    except StopIteration as error:
        raise RuntimeError("the model raised StopIteration, as next(iterator) does without a default") from error


def made_model(make: MakeModel) -> Model:
    """Return a new model; raise TypeError if it cannot be called, or would be awaited."""
    model: Model = make()
    if not callable(model):
        raise TypeError(f"map_actors calls the model with a batch, and {called(make)} has made {called(model)}")
    if inspect.iscoroutinefunction(model) or inspect.iscoroutinefunction(type(model).__call__):
        raise TypeError(
            f"map_actors calls the model with one batch at a time, and the model of {called(make)} is async. Define "
            "it without async, or await it in map_async"
        )
    return model
