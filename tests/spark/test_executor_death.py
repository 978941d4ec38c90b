"""Executors that die, and sessions that end, while a job reads a DataFrame from them."""

import pytest

from tests.spark.programs import run_program

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_no_row_is_lost_with_an_executor(pytestconfig: pytest.Config) -> None:
    """A job reads on when Ray has started a killed executor again; new conversions work with that one as well.

    When Spark is stopped before all is read, the job fails, and says what to do; so does one that a query feeds. Spark
    is one that the program has started itself: ``session`` uses it, and leaves it running.
    """
    seen = run_program("executor_death_program", pytestconfig.rootpath)
    assert seen["adopted"]
    assert seen["killed"] == "all"
    assert seen["again"] == 50
    assert "of 40 of DataFrame 'rows' cannot be read" in seen["stopped"]
    assert "leave the block of session() after job.wait()" in seen["stopped"]
    assert "the Spark session was stopped" in seen["left"]
