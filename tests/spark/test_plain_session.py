"""A Spark session without RayDP, in a process of its own."""

import pytest

from tests.spark.programs import run_program

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_rows_go_through_the_driver(pytestconfig: pytest.Config) -> None:
    """All types there and back, in epoch order, and through a job; a note says so, and ``session`` says what it is."""
    seen = run_program("plain_session_program", pytestconfig.rootpath)
    assert seen["differing"] == []
    assert [seen[what] for what in ("columns", "rows", "maps", "through")] == [True] * 4
    assert seen["blocks"] == 3
    assert [sorted(epochs) for epochs in seen["epochs"]] == seen["epochs"]
    assert {epoch for epochs in seen["epochs"] for epoch in epochs} == set(range(5))
    assert seen["empty"] == [0, ["id"]]
    assert seen["nothing"] == 0
    assert "columns that Arrow cannot hold: a (interval month)" in seen["foreign"]
    assert "this process already runs Spark ('plain' on local[1])" in seen["session"]
    notes = [note for note in seen["notes"] if "passes the driver" in note]
    assert any(
        "DataFrame 'values' passes the driver, as its Spark (local[1]) does not run on Ray" in note for note in notes
    )
    assert any(note.startswith("the source of to_spark passes the driver") for note in notes)
