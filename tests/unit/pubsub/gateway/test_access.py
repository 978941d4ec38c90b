"""Who may talk to the gateway."""

from typing import Any

import pytest

from tidewheel.pubsub.gateway.access import Access, Credentials, host_name

TOKEN = "correct-horse-battery-staple"
ACCESS = Access(TOKEN, frozenset({"localhost", "127.0.0.1", "::1"}), frozenset({"http://localhost:3000"}))


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8787", "LOCALHOST:1", "127.0.0.1:8787", "[::1]:8787", "[::1]"]
)
def test_this_machine_is_known_by_its_usual_names(host: str) -> None:
    """At any port, since a tunnel may begin at another."""
    assert ACCESS.place_refusal(Credentials(host=host)) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.", "0.0.0.0"],
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str) -> None:
    """DNS rebinding: the browser believes that it talks to that page's own host."""
    refusal = ACCESS.place_refusal(Credentials(host=host, authorization=f"Bearer {TOKEN}"))
    assert refusal is not None
    assert refusal.status == 403


@pytest.mark.parametrize("host", [None, "", ":8787", "user@localhost", "localhost/..", "[::1", "local host"])
def test_what_names_no_host_is_refused(host: str | None) -> None:
    """Whatever another parser would make of it."""
    assert host_name(host) is None
    refusal = ACCESS.place_refusal(Credentials(host=host))
    assert refusal is not None
    assert refusal.status == 400


def test_beyond_loopback_any_name_will_do() -> None:
    """There a token is asked for in every case."""
    assert Access(TOKEN).place_refusal(Credentials(host="data.example")) is None


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
    shown = Credentials(host="localhost:8787", origin=origin, authorization=f"Bearer {TOKEN}")
    refusal = ACCESS.place_refusal(shown)
    assert (refusal is None) is may
    assert refusal is None or refusal.status == 403


@pytest.mark.parametrize(
    ("site", "may"), [("none", True), ("same-origin", True), ("same-site", False), ("cross-site", False)]
)
def test_what_other_sites_load_without_saying_who_they_are_is_refused(site: str, may: bool) -> None:
    """As a script or an image, for which browsers send no origin."""
    assert (ACCESS.place_refusal(Credentials(host="localhost:8787", site=site)) is None) is may


@pytest.mark.parametrize(
    "shown",
    [
        {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer   {TOKEN}"},
        {"subprotocols": ("tidewheel", f"bearer.{TOKEN}")},
        {"query_token": TOKEN},
    ],
    ids=["header", "lower case", "subprotocol", "query"],
)
def test_the_token_opens(shown: dict[str, Any]) -> None:
    """By any of the ways to show it."""
    assert ACCESS.token_refusal(Credentials(**shown)) is None


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        ({}, "there is no token"),
        ({"subprotocols": ("tidewheel",)}, "there is no token"),
        ({"authorization": ""}, "the token is wrong"),
        ({"authorization": TOKEN}, "the token is wrong"),
        ({"authorization": f"Basic {TOKEN}"}, "the token is wrong"),
        ({"authorization": "Bearer wrong"}, "the token is wrong"),
        ({"query_token": ""}, "the token is wrong"),
        ({"subprotocols": ("bearer.",)}, "the token is wrong"),
        ({"authorization": f"Bearer {TOKEN}", "query_token": "wrong"}, "the token is wrong"),
    ],
    ids=range(9),
)
def test_anything_else_does_not(shown: dict[str, Any], says: str) -> None:
    """And the answer says how it is shown, but not what it is."""
    refusal = ACCESS.token_refusal(Credentials(**shown))
    assert refusal is not None
    assert refusal.status == 401
    assert says in refusal.message
    assert TOKEN not in refusal.message


def test_without_a_token_nothing_has_to_be_shown() -> None:
    """Which had to be asked for."""
    assert Access(None).token_refusal(Credentials()) is None


def test_no_token_is_in_a_representation() -> None:
    """What is logged or shown in an error has none."""
    shown = Credentials(authorization=TOKEN, subprotocols=(TOKEN,), query_token=TOKEN)
    assert TOKEN not in repr((ACCESS, shown))
