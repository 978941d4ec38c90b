"""``tidewheel serve``, as far as it needs no Ray."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.gateway.served import published
from tests.kit.messages import raises
from tests.waiting import WITHIN_S, eventually
from tidewheel.__main__ import main
from tidewheel.console.serve import VARIABLE, add_options, given_token, serve
from tidewheel.gateway import GatewayError

TOKEN = "correct-horse-battery-staple"
ANY_PORT = ("--port", "0", "--flight-port", "0")


@pytest.fixture(autouse=True)
def no_token_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the shell has that runs the tests."""
    monkeypatch.delenv(VARIABLE, raising=False)


def run_until(signal_number: int, *arguments: str, meanwhile: Callable[[str], None] = lambda url: None) -> list[str]:
    """Run the command until a signal ends it; return the lines that it shows."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    lines: list[str] = []
    failures: list[BaseException] = []

    def look() -> None:
        try:
            assert eventually(lambda: any(line.startswith("flight") for line in lines))
            meanwhile(lines[1].split()[1])
        except BaseException as error:  # noqa: BLE001  it is raised below
            failures.append(error)
        os.kill(os.getpid(), signal_number)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        with published("command"):
            serve(parser.parse_args([*ANY_PORT, *arguments]), lines.append)
    finally:
        thread.join(WITHIN_S)
        assert not failures, failures
    return lines


def names_at(url: str, token: str) -> list[str]:
    """Ask for the topics."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=WITHIN_S) as response:
        return [topic["name"] for topic in json.load(response)]


def test_it_shows_where_it_is_and_its_token(caplog: pytest.LogCaptureFixture) -> None:
    """The token is new each time, and in no log. SIGTERM ends it, and is again what it was."""
    before = signal.getsignal(signal.SIGTERM)
    lines = run_until(signal.SIGTERM)
    assert [line.split()[0] for line in lines] == ["page", "topics", "flight", "token"]
    assert lines[1].startswith("topics  http://127.0.0.1:")
    token = lines[3].split()[1]
    assert lines[0] == f"page    {lines[1].split()[1].removesuffix('/topics')}/#token={token}"
    assert len(token) == 43
    assert token not in caplog.text
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_token_that_is_given_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gave it knows it; from a file, or from the environment."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    found: list[list[str]] = []
    lines = run_until(
        signal.SIGTERM, "--token-file", str(file), meanwhile=lambda url: found.append(names_at(url, TOKEN))
    )
    monkeypatch.setenv(VARIABLE, TOKEN)
    lines += run_until(signal.SIGTERM, meanwhile=lambda url: found.append(names_at(url, TOKEN)))
    assert ["command" in names for names in found] == [True, True]
    assert TOKEN not in "".join(lines)
    assert VARIABLE not in os.environ


def test_ctrl_c_ends_it() -> None:
    """As every command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            run_until(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_token_has_to_be_asked_for() -> None:
    """And says what it means."""
    assert run_until(signal.SIGTERM, "--no-token")[3].startswith("token   none: every program on this machine")


def test_beyond_this_machine_it_says_that_nothing_is_encrypted() -> None:
    """Which has to be asked for by the address."""
    assert run_until(signal.SIGTERM, "--host", "0.0.0.0")[-1].startswith("data and token are sent without encryption")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--no-token", "--host", "0.0.0.0"], "without a token a gateway listens on loopback only"),
        (["--host", ""], "is no address of this machine"),
        (["--port", "65536"], "port is 65536"),
        (["--max-clients", "0"], "max_clients is 0"),
        (["--allow-origin", "*"], "is no origin"),
        (["--token-file", "/nowhere"], "the token file '/nowhere' cannot be read"),
    ],
    ids=range(6),
)
def test_what_cannot_be_is_one_line_and_exit_code_1(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything listens."""
    assert main(["serve", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tidewheel: ")
    assert says in captured.err


def test_without_a_cluster_it_says_so() -> None:
    """In a process of its own, for this one may have a cluster of other tests."""
    command = [sys.executable, "-m", "tidewheel", "serve", *ANY_PORT]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60.0)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("tidewheel: no connection to the Ray cluster at '127.0.0.1:1': ")


def test_no_token_and_a_token_are_not_both_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The variable may be forgotten, and the option a slip."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    assert main(["serve", "--no-token"]) == 1
    assert f"--no-token, and a token in {VARIABLE}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["serve", "--no-token", "--token-file", "x"])


@pytest.mark.parametrize("library", ["starlette", "uvicorn", "websockets"])
def test_without_the_extra_it_says_what_to_install(
    library: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the libraries is needed."""
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["serve", *ANY_PORT]) == 1
    assert "pip install 'tidewheel[gateway]'" in capsys.readouterr().err


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
    with raises(GatewayError):
        given_token(str(file), {})
    file.write_text("")
    with raises(GatewayError):
        given_token(str(file), {})
    file.write_bytes(b"\xff\xfe")
    with raises(GatewayError):
        given_token(str(file), {})
