"""The extras of pyproject.toml and the errors that name them say the same."""

import pytest

from tests.kit.messages import raises
from tests.packaging.repository import pyproject
from tidewheel.host import extras
from tidewheel.host.extras import LIBRARIES, Extra, check_extra, install_command
from tidewheel.pubsub.errors import DeliveryError


def test_all_is_every_extra_that_an_error_names() -> None:
    """The others are for a checkout, or for Spark 4 in place of Spark 3.5."""
    declared = pyproject()["project"]["optional-dependencies"]
    assert declared["all"] == [f"tidewheel[{','.join(sorted(LIBRARIES))}]"]
    assert sorted(set(declared) - set(LIBRARIES)) == ["all", "bench", "dev", "docs", "examples", "spark4", "test"]


@pytest.mark.parametrize("extra", LIBRARIES)
def test_the_error_of_a_missing_extra_has_the_command_that_installs_it(
    extra: Extra, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each library of the extra is looked for."""
    for library in LIBRARIES[extra]:
        monkeypatch.setattr(extras, "find_spec", lambda name, missing=library: None if name == missing else name)
        with raises(DeliveryError) as raised:
            check_extra(extra, "this", DeliveryError)
        assert str(raised.value).endswith(install_command(extra))
        assert library in str(raised.value)
