"""The programs of how-to pages that need Ray run as they are pasted, and print what the pages show."""

from pathlib import Path

import pytest

from tests.docs.site_snippets import ON_RAY, run_page

pytestmark = pytest.mark.ray


LONG = "how-to/datasets.md"
"""A page of many jobs; tests/ray/test_datasets.py has a short form of each."""


@pytest.mark.parametrize("page", [pytest.param(one, marks=[pytest.mark.long] * (one == LONG)) for one in ON_RAY])
def test_the_page_runs(page: str, tmp_path: Path, ray_cluster: str) -> None:
    """On the cluster of the tests; the README has one of its own."""
    run_page(page, tmp_path, "ray", ray_cluster)
