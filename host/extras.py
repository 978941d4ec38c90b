"""The extras of tidewheel: which libraries each part needs, and the command that installs them."""

import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final, Literal, TypeAlias

from tidewheel.progress.errors import TidewheelError

Extra: TypeAlias = Literal[
    "data", "delta", "gateway", "iceberg", "kafka", "nats", "notebook", "otel", "postgres", "redis", "spark", "testing"
]
"""A name in the brackets of ``pip install 'tidewheel[...]'``."""

LIBRARIES: Final[Mapping[Extra, tuple[str, ...]]] = {
    "data": ("pandas",),
    "delta": ("deltalake",),
    "gateway": ("prometheus_client", "starlette", "uvicorn", "websockets"),
    "iceberg": ("pyiceberg",),
    "kafka": ("confluent_kafka",),
    "nats": ("nats",),
    "notebook": ("anywidget", "traitlets"),
    "otel": ("opentelemetry",),
    "postgres": ("psycopg",),
    "redis": ("redis",),
    "spark": ("pyspark", "py4j"),
    "testing": ("pytest",),
}
"""The packages that each extra installs and requires, by the names under which a program imports them.

RayDP is not among them: Spark works without it in sessions that a program makes; see `spark_bridge/spark_release.py`.
"""


def install_command(extra: str) -> str:
    """Return the command that installs an extra.

    Spark 3.5 runs on Python up to 3.12. Later versions need Spark 4, which has its own extra.

    >>> install_command("gateway")
    "pip install 'tidewheel[gateway]'"
    """
    named = "spark4" if extra == "spark" and sys.version_info >= (3, 13) else extra
    return f"pip install 'tidewheel[{named}]'"


def check_extra(extra: Extra, part: str, error: Callable[[str], TidewheelError]) -> None:
    """Raise an error with the command that installs an extra if a library of it is missing.

    The libraries are not imported.

    Args:
        extra: the extra.
        part: the part of tidewheel that needs the libraries, as the subject of the message.
        error: makes the error from a message.
    """
    for library in LIBRARIES[extra]:
        if find_spec(library) is None:
            raise error(
                f"{part} needs {library}, which is not installed. Install the extra where tidewheel is: "
                f"{install_command(extra)}"
            ) from ModuleNotFoundError(f"No module named {library!r}", name=library)
