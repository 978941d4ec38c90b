"""The settings of a Spark session, merged with the user's."""

import pytest

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.spark_configuration import (
    JAVA_OPTIONS_SETTINGS,
    OPENED_PACKAGES,
    executor_cpus,
    spark_configuration,
)


@pytest.mark.parametrize("name", JAVA_OPTIONS_SETTINGS)
def test_java_options_are_added_to_the_users(name: str) -> None:
    """Each kind of JVM gets the packages that Java 17 would keep closed, and the user's options besides."""
    options = spark_configuration({name: "-Xss4m -Dx=y"})[name].split()
    assert options[-2:] == ["-Xss4m", "-Dx=y"]
    assert options[:-2] == [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES]


def test_the_users_settings_win() -> None:
    """The defaults keep Spark quiet, and can be overridden."""
    assert spark_configuration()["spark.ui.enabled"] == "false"
    settings = spark_configuration({"spark.ui.enabled": True, "spark.sql.shuffle.partitions": 4})
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.sql.shuffle.partitions"] == "4"


@pytest.mark.parametrize("name", ["spark.executor.instances", "spark.executor.cores", "spark.executor.memory"])
def test_settings_that_are_arguments_are_refused(name: str) -> None:
    """RayDP overwrites these in silence, so the user is told where they belong."""
    with pytest.raises(BridgeError, match=rf"{name}: pass it to session"):
        spark_configuration({name: "2"})


def test_the_cpus_of_an_executor_can_be_set() -> None:
    """An executor takes as many Ray CPUs as it has cores, unless RayDP's own setting says otherwise."""
    assert executor_cpus({}, 2) == 2
    assert executor_cpus({"spark.ray.raydp_spark_executor.actor.resource.cpu": "0.5"}, 2) == 0.5
