"""No folder imports upward, and the pages say what the layers are."""

from tests.packaging.layers import LAYERS, TABLES, edges_upward, folder_of, with_table
from tests.packaging.repository import FACADE, shipped_modules


def test_no_folder_imports_upward() -> None:
    """Types and imports in functions count; the few that are permitted stand beside the order."""
    assert [str(edge) for edge in edges_upward()] == []


def test_every_folder_has_its_layer() -> None:
    """A new folder is put into the order, and one that is gone leaves it."""
    found = {folder_of(module) for module in shipped_modules() if module.parent != FACADE}
    assert found == set(LAYERS)


def test_pages_have_the_layers_of_today() -> None:
    """Whoever changes the order runs `python -m tests.packaging.layers`."""
    assert [page.name for page in TABLES if page.read_text(encoding="utf-8") != with_table(page)] == []
