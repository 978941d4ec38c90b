"""The installed releases of PySpark and RayDP, and the way rows take with each.

===============  ============  ===========================================================
PySpark          RayDP         how rows travel
===============  ============  ===========================================================
3.5              1.6           between executors and workers
4.0, 4.1, 4.2    1.7           between executors and workers
3.5              none          through the driver, by private parts of PySpark (`jvm`)
4                none          through the driver, by PySpark's public conversions of Arrow
===============  ============  ===========================================================

A session that the program has started itself, such as ``local[*]``, is treated as a session without RayDP. All other
modules work with any of these releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from tidewheel.spark_bridge.errors import BridgeError

_RUNS: Final[Mapping[str, tuple[str, ...]]] = {"1.6": ("3.5",), "1.7": ("4.0", "4.1", "4.2")}
"""The releases of Spark that each release of RayDP runs."""


@dataclass(frozen=True, slots=True)
class SparkRelease:
    """The releases of PySpark and RayDP; None for a package that is not installed.

    >>> SparkRelease("4.2.1", None).converts_arrow
    True
    """

    pyspark: str | None
    raydp: str | None

    @property
    def converts_arrow(self) -> bool:
        """True if PySpark has public conversions from and to Arrow tables, which came with 4.0."""
        return self.pyspark is not None and not self.pyspark.startswith("3.")

    @property
    def java_options(self) -> tuple[str, ...]:
        """The options with which Spark starts each JVM, and with which some Java runtimes do not start."""
        return ("--add-modules=jdk.incubator.vector",) if self.converts_arrow else ()

    def check_raydp(self) -> None:
        """Check that RayDP can run this Spark on Ray.

        Raises:
            BridgeError: RayDP is not installed, or cannot run this release of Spark; the message says what to install.
        """
        fitting = next((raydp for raydp, lines in _RUNS.items() if _line(self.pyspark) in lines), None)
        if fitting is not None and _line(self.raydp) == fitting:
            return
        found = f"{_named('PySpark', self.pyspark)}, {_named('RayDP', self.raydp)}"
        known = ", ".join(f"RayDP {raydp} runs Spark {' and '.join(lines)}" for raydp, lines in _RUNS.items())
        raise BridgeError(
            f"session() starts Spark on Ray by RayDP. Installed: {found}; {known}. Run pip install 'tidewheel[spark]' "
            "for Spark 3.5, or pip install 'tidewheel[spark4]' for Spark 4. from_spark, to_spark and feed also accept "
            "a session without RayDP, whose rows go through the driver"
        )


@cache
def installed() -> SparkRelease:
    """Return the installed releases of PySpark and RayDP."""
    return SparkRelease(_version("pyspark"), _version("raydp"))


def _named(package: str, release: str | None) -> str:
    return f"no {package}" if release is None else f"{package} {release}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _line(release: str | None) -> str:
    return ".".join((release or "").split(".")[:2])
