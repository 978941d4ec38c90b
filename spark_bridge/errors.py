"""The error of the Spark bridge, and short messages for Spark's errors, without Java's stack."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidewheel.progress.errors import TidewheelError
from tidewheel.spark_bridge import jvm

_JAVA_FRAMES = ("\tat ", "\t...", "at org.apache.", "at java.", "at scala.")
_MOST_CAUSES = 20
_AFTER_THE_MESSAGE = ("Driver stacktrace:", "JVM stacktrace:")


class BridgeError(TidewheelError):
    """Spark, RayDP or Java, or their data, cannot be used.

    The message names the problem and the remedy.
    """


def readable(error: BaseException) -> str:
    """Return the message of an exception, or of its cause in Spark, without Java's stack.

    >>> readable(ValueError("no number"))
    'ValueError: no number'
    """
    text = jvm.captured_message(error)
    if text is None:
        text = _thrown(getattr(error, "java_exception", None))
    if text is None:
        text = str(error.args[0]) if error.args else ""
    return f"{type(error).__name__}: {without_java(text)}".removesuffix(": ")


@contextmanager
def computing(name: str) -> Iterator[None]:
    """Convert errors in the ``with`` block, which computes the DataFrame ``name``, to BridgeError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise BridgeError(f"Spark could not compute DataFrame {name!r}: {readable(error)}") from error


def _thrown(java: Any) -> str | None:
    text: str | None = None
    try:
        for _ in range(_MOST_CAUSES):
            if java is None:
                break
            text, java = java.toString(), java.getCause()
    except Exception:  # noqa: BLE001 - the JVM is gone
        return text
    return text


def without_java(text: str) -> str:
    r"""Return a text without the lines of Java's stack.

    >>> without_java("Job aborted\n\tat org.apache.spark.Job.run(Job.scala:1)\n\nDriver stacktrace:\n\tat java.x")
    'Job aborted'
    """
    for mark in _AFTER_THE_MESSAGE:
        text = text.partition(mark)[0]
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith(_JAVA_FRAMES)).strip()
