"""The bearer token."""

from pathlib import Path

import pytest

from tidewheel.pubsub.gateway import GatewayConfig, GatewayError, new_token
from tidewheel.pubsub.gateway.token import VARIABLE, check_form, given_token, is_token

TOKEN = "correct-horse-battery-staple"


def test_a_new_token_is_of_the_form_that_all_places_take() -> None:
    """A header, a query and a subprotocol."""
    check_form(new_token(), "here")


@pytest.mark.parametrize(
    "token", ["", "short", "with blank in the middle", "a" * 513, "semi;colon;semi;colon", "ü" * 20]
)
def test_what_is_no_token_is_refused_and_not_shown(token: str) -> None:
    """The message says where it came from, and what a token is."""
    with pytest.raises(GatewayError, match="here: a token is 16 to 512") as caught:
        check_form(token, "here")
    assert not token or token not in str(caught.value)


def test_the_file_comes_before_the_environment_which_forgets_it(tmp_path: Path) -> None:
    """So that no process that is started later inherits the token."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    environment = {VARIABLE: "another-token-of-another"}
    assert given_token(str(file), environment) == TOKEN
    assert environment == {}
    environment = {VARIABLE: TOKEN}
    assert given_token(None, environment) == TOKEN
    assert environment == {}
    assert given_token(None, environment) is None


def test_a_file_that_holds_no_token_is_an_error(tmp_path: Path) -> None:
    """It never means that none is wanted."""
    file = tmp_path / "token"
    with pytest.raises(GatewayError, match=r"cannot be read: .*No such file"):
        given_token(str(file), {})
    file.write_text("")
    with pytest.raises(GatewayError, match=r"the token file .*: a token is"):
        given_token(str(file), {})
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(GatewayError, match="cannot be read"):
        given_token(str(file), {})


@pytest.mark.parametrize("offered", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ü", "\udcff"])
def test_only_the_token_is_the_token(offered: str) -> None:
    """Whatever comes over the network is compared, and never fails to be."""
    assert is_token(TOKEN, TOKEN)
    assert not is_token(offered, TOKEN)


def test_a_token_is_in_no_representation() -> None:
    """What is logged or shown in an error has none."""
    assert TOKEN not in repr(GatewayConfig(token=TOKEN))
