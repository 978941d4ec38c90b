"""An exchange by key at which messages for each worker are counted apart."""

from dataclasses import dataclass
from typing import ClassVar

from tidewheel.runtime.description.pacts import Exchange


@dataclass(frozen=True, slots=True)
class ApartExchange(Exchange):
    """Sends each record to the worker that owns its key, and counts what each worker has to receive apart."""

    counts_apart: ClassVar[bool] = True
