"""The Spark settings that RayDP needs on Java 17, merged with the user's.

Ray's Java workers serialise with a library that uses reflection on the JDK. Java 17 forbids this unless options allow
it, and RayDP's master would die at the first conversion. The driver, the executors and RayDP's master have separate
settings for these options.
"""

from collections.abc import Mapping

from tidewheel.spark_bridge.errors import BridgeError

_JAVA_BASE = (
    "java.io java.lang java.lang.invoke java.lang.reflect java.math java.net java.nio java.text java.util "
    "java.util.concurrent java.util.concurrent.atomic sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
)
OPENED_PACKAGES = (*(f"java.base/{package}" for package in _JAVA_BASE.split()), "java.sql/java.sql")
JAVA_OPTIONS_SETTINGS = (
    "spark.driver.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.ray.raydp_app_master.extraJavaOptions",
)
DRIVER_LOG_SETTING = "spark.log4j.config.file.name"

_EXECUTOR_CPUS_SETTING = "spark.ray.raydp_spark_executor.actor.resource.cpu"
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_ARGUMENTS = {
    "spark.app.name": "app_name",
    "spark.executor.instances": "executors",
    "spark.executor.cores": "cores",
    "spark.executor.memory": "memory",
}

# The driver's log level must hold from the first line: Spark's default announces itself and warns before a program can
# set the level.
DRIVER_LOG_CONFIGURATION = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


def spark_configuration(configs: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return ``configs`` with the settings that RayDP needs, and defaults that keep Spark quiet.

    Java options are added to the user's; for other settings, the user's value wins.

    >>> spark_configuration({"spark.sql.ansi.enabled": True})["spark.sql.ansi.enabled"]
    'true'

    Raises:
        BridgeError: ``configs`` has a setting for which ``session`` has an argument.
    """
    given = {name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in (configs or {}).items()}
    for name, argument in _ARGUMENTS.items():
        if name in given:
            raise BridgeError(f"configs sets {name}: pass it to session as {argument}= instead")
    opened = " ".join(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES)
    options = {name: f"{opened} {given.get(name, '')}".strip() for name in JAVA_OPTIONS_SETTINGS}
    return _QUIET | given | options


def executor_cpus(settings: Mapping[str, str], cores: int) -> float:
    """Return the Ray CPUs of an executor with ``cores`` Spark cores: the same number, unless a setting changes it.

    >>> executor_cpus({}, cores=2)
    2.0
    """
    return float(settings.get(_EXECUTOR_CPUS_SETTING, cores))
