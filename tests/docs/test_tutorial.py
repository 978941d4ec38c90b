"""The parts of the tutorial that start Ray or Spark: each block runs as it is pasted, and prints what is shown."""

from pathlib import Path

import pytest

from tests.kit.docs.pages import run
from tests.packaging.repository import ROOT

TUTORIAL = ROOT / "docs" / "tutorial"


@pytest.mark.ray
@pytest.mark.parametrize("page", ["ray", "topics"])
def test_a_page_on_ray_runs(page: str, tmp_path: Path) -> None:
    """Each page starts a Ray of its own, as a reader does."""
    run(TUTORIAL / f"{page}.md", tmp_path, ROOT, limit_s=120)


@pytest.mark.long
@pytest.mark.spark
def test_the_page_on_spark_runs(tmp_path: Path) -> None:
    """DataFrames in and out, and Structured Streaming both ways. The README and tests/spark run what it has."""
    run(TUTORIAL / "spark.md", tmp_path, ROOT, limit_s=170)


def test_every_page_is_run() -> None:
    """A page that is added here is added to a test."""
    assert {page.stem for page in TUTORIAL.glob("*.md")} == {"local", "ray", "spark", "topics"}
