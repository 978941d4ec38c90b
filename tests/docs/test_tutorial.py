"""The parts of the tutorial that start Ray or Spark: each block runs as it is pasted, and prints what is shown."""

from pathlib import Path

import pytest

from tests.kit.docs.pages import run
from tests.packaging.repository import ROOT

TUTORIAL = ROOT / "docs" / "tutorial"


@pytest.mark.ray
@pytest.mark.parametrize("page", ["ray", "topics"])
def test_the_pages_on_ray_and_topics_run(tmp_path: Path, ray_cluster: str, page: str) -> None:
    """On the Ray of the tests. The README's test has a program start a Ray of its own."""
    run(TUTORIAL / f"{page}.md", tmp_path, ROOT, limit_s=360, cluster=ray_cluster)


@pytest.mark.long
@pytest.mark.spark
def test_the_page_on_spark_runs(tmp_path: Path) -> None:
    """DataFrames in and out, and Structured Streaming both ways. The README and tests/spark run what it has."""
    run(TUTORIAL / "spark.md", tmp_path, ROOT, limit_s=480)


def test_every_page_is_run() -> None:
    """A page that is added here is added to a test."""
    assert {page.stem for page in TUTORIAL.glob("*.md")} == {"local", "ray", "spark", "topics"}
