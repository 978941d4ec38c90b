"""The parts of the tutorial that start Ray or Spark: each block runs as it is pasted, and prints what is shown."""

from pathlib import Path

import pytest

from tests.kit.docs.pages import run
from tests.packaging.repository import ROOT

TUTORIAL = ROOT / "docs" / "tutorial"


@pytest.mark.ray
def test_the_page_on_ray_runs(tmp_path: Path) -> None:
    """It starts a Ray of its own, as a reader does."""
    run(TUTORIAL / "ray.md", tmp_path, ROOT, limit_s=360)


@pytest.mark.ray
def test_the_page_on_topics_runs(tmp_path: Path, ray_cluster: str) -> None:
    """A reader has a Ray from the page before it; here it is that of the tests."""
    run(TUTORIAL / "topics.md", tmp_path, ROOT, limit_s=360, cluster=ray_cluster)


@pytest.mark.long
@pytest.mark.spark
def test_the_page_on_spark_runs(tmp_path: Path) -> None:
    """DataFrames in and out, and Structured Streaming both ways. The README and tests/spark run what it has."""
    run(TUTORIAL / "spark.md", tmp_path, ROOT, limit_s=480)


def test_every_page_is_run() -> None:
    """A page that is added here is added to a test."""
    assert {page.stem for page in TUTORIAL.glob("*.md")} == {"local", "ray", "spark", "topics"}
