"""The programs of how-to pages that need Spark run as they are pasted, and print what the pages show."""

from pathlib import Path

import pytest

from tests.docs.site_snippets import ON_SPARK, run_page

pytestmark = pytest.mark.spark

LONG = {"how-to/spark.md": pytest.mark.long, "how-to/windows.md": pytest.mark.long}
"""The pages of which the README or tests without Spark run as much; there are tests of all that they do with Spark."""


@pytest.mark.parametrize("page", [pytest.param(page, marks=LONG.get(page, ())) for page in ON_SPARK])
def test_the_page_runs(page: str, tmp_path: Path) -> None:
    """On a cluster and a Spark of the program's own."""
    run_page(page, tmp_path, "spark")
