"""The meeting of the members of a job over sockets, which leaves nothing behind."""

import gc
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.links.link_kind import DEADLINE_S, INCARNATION, Arrivals, Task, letter
from tests.links.open_files import open_files
from tests.links.socket_kinds import BETWEEN_NODES, HOST, MIXED, WITHIN_A_NODE, SocketKind
from tests.waiting import eventually
from tidewheel.progress import ProtocolError
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope, decode
from tidewheel.transport import socket_link
from tidewheel.transport.link import PeerLost
from tidewheel.transport.socket_address import DRIVER, SocketAddress, SocketKeys
from tidewheel.transport.socket_link import SocketReceiver, SocketSender
from tidewheel.transport.socket_listener import SocketListener

KINDS = {"within": WITHIN_A_NODE, "between": BETWEEN_NODES, "mixed": MIXED}


def sender_to(
    address: SocketAddress, member: int, keys: SocketKeys | None = None, node: str = "a"
) -> SocketSender[Envelope]:
    return SocketSender(member, node, {0: address}, keys or SocketKeys.make(), INCARNATION, ENVELOPES)


def folder_of(address: SocketAddress) -> Path:
    return Path(address.ipc.removeprefix("ipc://")).parent


@pytest.fixture
def receiver() -> Iterator[SocketReceiver[Envelope]]:
    with closing(SocketReceiver(SocketListener("a"), ENVELOPES)) as receiver:
        yield receiver


def test_only_this_user_can_enter_the_directory(receiver: SocketReceiver[Envelope]) -> None:
    """Whoever may not enter the directory cannot connect to the socket in it."""
    status = folder_of(receiver.listener.address).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o700, os.getuid())


def test_a_missing_member_is_named_in_time(receiver: SocketReceiver[Envelope]) -> None:
    """Those that have not called are named, and only those; the directory is gone all the same."""
    began_s = time.monotonic()
    with (
        closing(sender_to(receiver.listener.address, 1)),
        pytest.raises(PeerLost, match=r"^the driver, worker 3 did not connect to ipc://\S+ within 0\.3 s"),
    ):
        receiver.meet([DRIVER, 1, 3], 0.3)
    assert 0.29 < time.monotonic() - began_s < 3
    assert not folder_of(receiver.listener.address).exists()


def test_a_port_on_a_host_that_is_not_ours() -> None:
    """The error says that one cannot listen there, and closing leaves nothing behind."""
    with (
        closing(SocketReceiver(SocketListener("a"), ENVELOPES)) as receiver,
        pytest.raises(PeerLost, match=r"no port on 192\.0\.2\.1 is free"),
    ):
        receiver.listener.listen_to_other_nodes("192.0.2.1", SocketKeys.make())
    assert not folder_of(receiver.listener.address).exists()


def test_the_directory_is_gone_when_all_have_met(receiver: SocketReceiver[Envelope]) -> None:
    """It is there as long as someone may still call, and the connections outlast it."""
    with closing(sender_to(receiver.listener.address, 1)) as one:
        assert folder_of(receiver.listener.address).exists()
        receiver.meet([1], DEADLINE_S)
        assert not folder_of(receiver.listener.address).exists()
        one.send(0, letter(1, 0, ["after"]))
        assert Arrivals(receiver).take(1).batches == [["after"]]


def test_the_directory_is_gone_when_nobody_met(receiver: SocketReceiver[Envelope]) -> None:
    """Closing is enough."""
    receiver.close()
    assert not folder_of(receiver.listener.address).exists()


def test_what_comes_while_they_meet_is_kept(receiver: SocketReceiver[Envelope]) -> None:
    """One member may send before another has called: nothing of it is lost, and its order can be restored."""
    with closing(sender_to(receiver.listener.address, 1)) as one:
        for sequence in range(1500):
            one.send(0, letter(1, sequence, [sequence]))
        meeting = Task(partial(receiver.meet, [1, 2], DEADLINE_S))
        receiver.deliver(letter(5, 0, ["delivered"]))
        with closing(sender_to(receiver.listener.address, 2)):
            meeting.join()
        for sequence in range(1500, 2000):
            one.send(0, letter(1, sequence, [sequence]))
        arrivals = Arrivals(receiver).take(2001)
    assert arrivals.ordered[1] == [letter(1, i, [i]) for i in range(2000)]


def test_what_cannot_be_read_is_an_error_and_not_the_end(receiver: SocketReceiver[Envelope]) -> None:
    """A member that sends what cannot be unpickled is reported; what comes after can be received."""
    with closing(sender_to(receiver.listener.address, 1)) as one:
        receiver.meet([1], DEADLINE_S)
        for frames in ([b"no pickle"], [b"cnowhere\nnothing\n."], [b"\x80\x05\x97.", b"one", b"two"], [b"N."]):
            one._sockets[0].send_multipart(frames)
            with pytest.raises(ProtocolError, match="it cannot be unpickled: "):
                receiver.receive(DEADLINE_S)
        one.send(0, letter(1, 0, ["after"]))
        assert Arrivals(receiver).take(1).batches == [["after"]]
    with pytest.raises(ProtocolError):
        decode(b"")


@pytest.mark.parametrize("refused", ["caller", "listener"])
def test_a_sender_that_is_refused_never_waits(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With keys of another job, `send` does not hang, and within 10 s `check` says which peer it is."""
    monkeypatch.setattr(socket_link, "_LOST_FOR_S", 0.3)
    keys, others = SocketKeys.make(), SocketKeys.make()
    listener, caller = (keys, others) if refused == "caller" else (others, keys)
    mixed = SocketKeys(listener.listener_public, b"", caller.caller_public, caller.caller_secret)
    with closing(SocketReceiver(SocketListener("a"), ENVELOPES)) as receiver:
        address = receiver.listener.listen_to_other_nodes(HOST, keys)
        with closing(sender_to(address, 1, mixed, node="b")) as sender:
            failures: dict[str, PeerLost] = {}

            def is_refused() -> bool:
                for name, action in (("send", partial(sender.send, 0, letter(1, 0))), ("check", sender.check)):
                    try:
                        action()
                    except PeerLost as error:
                        failures[name] = error
                return "check" in failures

            sending = Task(partial(eventually, is_refused))
            sending.join(DEADLINE_S)
            assert {failure.worker for failure in failures.values()} == {0}
            assert ("send" in failures) is (refused == "caller")
            assert receiver.receive(0.0) == []


def leave_nothing(kinds: list[SocketKind]) -> dict[str, list[str]]:
    """Return the threads, open files and directories that links have left behind in this process."""
    with WITHIN_A_NODE.members(2) as members:  # what pyzmq starts once for the whole process
        members[0].sender.send(1, letter(0, 0, np.zeros(1 << 20)))
        Arrivals(members[1].receiver).take(1)
    before = open_files(), set(threading.enumerate())
    for kind in kinds:
        for _ in range(3):
            with kind.members(3) as members:
                for member in members[:2]:
                    member.sender.send(2, letter(member.number, 0, np.zeros(1 << 20)))
                Arrivals(members[2].receiver).take(2)
                for member in members:
                    for end in (member.sender, member.receiver, member.sender, member.receiver):
                        end.close()
    listening = SocketReceiver(SocketListener("a"), ENVELOPES)
    listening.listener.listen_to_other_nodes(HOST, SocketKeys.make())
    listening.close()
    gc.collect()
    eventually(lambda: open_files() == before[0], 5)
    return {
        "files": sorted(open_files() - before[0]),
        "threads": sorted(thread.name for thread in set(threading.enumerate()) - before[1]),
        "directories": [path.name for path in Path(tempfile.gettempdir()).glob(f"tidewheel-{os.getpid()}-*")],
    }


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_left_after_closing(name: str) -> None:
    """Neither threads nor open files nor directories; in a process where nobody else opens any."""
    program = (
        "import json; from tests.links import test_socket_meeting as m; "
        f"print(json.dumps(m.leave_nothing([m.KINDS[{name!r}]])))"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == {"files": [], "threads": [], "directories": []}
