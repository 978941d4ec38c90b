"""The right to talk to the gateway."""

from collections.abc import Iterable

import pytest

from tests.kit.messages import raises
from tidewheel.gateway import GatewayConfig, GatewayError
from tidewheel.gateway.access import Access, check_token, host_name, new_token, tokens_in

TOKEN = "correct-horse-battery-staple"
ACCESS = Access(TOKEN, frozenset({"localhost", "127.0.0.1", "::1"}), frozenset({"http://localhost:3000"}))


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8787", "LOCALHOST:1", "127.0.0.1:8787", "[::1]:8787", "[::1]"]
)
def test_this_machine_is_known_by_its_usual_names(host: str) -> None:
    """At any port, since a tunnel may begin at another."""
    assert ACCESS.place_refusal({"host": host}) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.", "0.0.0.0"],
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str) -> None:
    """DNS rebinding: the browser believes that it talks to that page's own host."""
    refusal = ACCESS.place_refusal({"host": host, "authorization": f"Bearer {TOKEN}"})
    assert refusal is not None
    assert refusal.status == 403


@pytest.mark.parametrize("host", [None, "", ":8787", "user@localhost", "localhost/..", "[::1", "local host"])
def test_what_names_no_host_is_refused(host: str | None) -> None:
    """Whatever another parser would make of it."""
    assert host_name(host or "") is None
    refusal = ACCESS.place_refusal({} if host is None else {"host": host})
    assert refusal is not None
    assert refusal.status == 400


def test_beyond_loopback_any_name_will_do() -> None:
    """There a token is asked for in every case."""
    assert Access(TOKEN).place_refusal({"host": "data.example"}) is None


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        (None, True),
        ("http://localhost:8787", True),
        ("https://localhost:8787", True),
        ("http://localhost:3000", True),
        ("http://localhost:3001", False),
        ("http://LOCALHOST:3000", False),
        ("https://localhost:3000", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
        ("localhost:8787", False),
        ("http://localhost:8787.evil.example", False),
    ],
)
def test_pages_may_ask_that_are_ours_or_allowed(origin: str | None, may: bool) -> None:
    """Nobody else's, with or without the token: it may have been read by that page."""
    headers = {"host": "localhost:8787", "authorization": f"Bearer {TOKEN}"}
    refusal = ACCESS.place_refusal(headers if origin is None else {**headers, "origin": origin})
    assert (refusal is None) is may
    assert refusal is None or refusal.status == 403


@pytest.mark.parametrize(
    ("site", "may"), [("none", True), ("same-origin", True), ("same-site", False), ("cross-site", False)]
)
def test_what_other_sites_load_without_saying_who_they_are_is_refused(site: str, may: bool) -> None:
    """As a script or an image, for which browsers send no origin."""
    assert (ACCESS.place_refusal({"host": "localhost:8787", "sec-fetch-site": site}) is None) is may


@pytest.mark.parametrize(
    ("authorizations", "subprotocols"),
    [
        ([f"Bearer {TOKEN}"], ()),
        ([f"bearer   {TOKEN}"], ()),
        ([], ("tidewheel", f"bearer.{TOKEN}")),
        ([f"Bearer {TOKEN}"], (f"bearer.{TOKEN}",)),
    ],
    ids=["header", "lower case", "subprotocol", "both"],
)
def test_the_token_opens(authorizations: list[str], subprotocols: Iterable[str]) -> None:
    """By any of the ways to show it."""
    assert ACCESS.token_refusal(tokens_in(authorizations, subprotocols)) is None


@pytest.mark.parametrize(
    ("authorizations", "subprotocols", "says"),
    [
        ([], (), "there is no token"),
        ([], ("tidewheel",), "there is no token"),
        ([""], (), "the token is wrong"),
        ([TOKEN], (), "the token is wrong"),
        ([f"Basic {TOKEN}"], (), "the token is wrong"),
        (["Bearer wrong"], (), "the token is wrong"),
        ([], ("bearer.",), "the token is wrong"),
        ([f"Bearer {TOKEN}", "Bearer wrong"], (), "the token is wrong"),
        ([f"Bearer {TOKEN}"], ("bearer.wrong",), "the token is wrong"),
    ],
    ids=range(9),
)
def test_anything_else_does_not(authorizations: list[str], subprotocols: Iterable[str], says: str) -> None:
    """And the answer says how it is shown, but not what it is."""
    refusal = ACCESS.token_refusal(tokens_in(authorizations, subprotocols))
    assert refusal is not None
    assert refusal.status == 401
    assert says in refusal.message
    assert "other paths than /topics/NAME/events take no token from the URL" in refusal.message
    assert TOKEN not in refusal.message


@pytest.mark.parametrize("offered", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ü", "\udcff"])
def test_only_the_token_is_the_token(offered: str) -> None:
    """Whatever comes over the network is compared, and never fails to be."""
    assert ACCESS.token_refusal([TOKEN]) is None
    assert ACCESS.token_refusal([offered]) is not None
    assert ACCESS.token_refusal([TOKEN, offered]) is not None


def test_without_a_token_nothing_has_to_be_shown() -> None:
    """Which had to be asked for."""
    assert Access(None).token_refusal([]) is None


def test_a_token_is_in_no_representation() -> None:
    """What is logged or shown in an error has none."""
    assert TOKEN not in repr((ACCESS, GatewayConfig(token=TOKEN)))


def test_a_new_token_is_of_the_form_that_all_places_take() -> None:
    """A header, a query and a subprotocol."""
    check_token(new_token(), "here")


@pytest.mark.parametrize(
    "token", ["", "short", "with blank in the middle", "a" * 513, "semi;colon;semi;colon", "ü" * 20]
)
def test_what_is_no_token_is_refused_and_not_shown(token: str) -> None:
    """The message says where it came from, and what a token is."""
    with raises(GatewayError) as caught:
        check_token(token, "here")
    assert not token or token not in str(caught.value)


def test_no_token_is_in_a_representation() -> None:
    """What is logged or shown in an error has none."""
    assert "a secret" not in repr(Access(token="a secret", hosts=frozenset({"localhost"})))
