"""Environment variables of this process, set for a while.

Child processes inherit them when they start: a JVM or a Ray node started inside the block keeps what it saw.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def process_environment(**variables: str) -> Iterator[None]:
    """Set ``variables`` in ``os.environ``, and restore what was there, or was not, at the end.

    >>> with process_environment(TIDEWHEEL_EXAMPLE="on"):
    ...     os.environ["TIDEWHEEL_EXAMPLE"]
    'on'
    >>> "TIDEWHEEL_EXAMPLE" in os.environ
    False
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
