"""The servers that benchmarks of topics compare with.

``python -m benchmarks.contestants.pubsub_servers NAME FOLDER`` runs one of them.

``redis`` and ``nats`` keep nothing; ``durable-redis`` and ``jetstream`` have everything on disk before they say so.
``leaf`` is a NATS server of a tree, whose settings `write_leaf` has written to the folder. A server listens on this
machine only, and writes only to the folder. The program writes an empty line when the server accepts connections, and
answers each line of its input with the address and the version. It ends the server when its input ends, so the server
also ends if the process that started it dies.
"""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measuring.pubsub_traffic import wait

_READY_WITHIN_S = 20.0
_ENDS_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.02
_NATS = """
host: 127.0.0.1
port: -1
max_payload: 8MB
max_pending: 4GB
write_deadline: "60s"
ports_file_dir: {folder}
"""
"""Any free port, which a file tells. By default a message has 1 MB at most, and who is 64 MB behind is cut off."""
_JETSTREAM = """
jetstream {{
  store_dir: {folder}
  max_file_store: 16GB
  {sync}
}}
"""
_SYNCS_ALWAYS_SINCE = (2, 10)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    make_command, address = SERVERS[name]
    command = make_command(folder)
    version = version_of(command[0])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Path(folder, f"{name}.log").open("w+") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            found = once_ready(server, lambda: address(folder))
            print(flush=True)
            for _ in sys.stdin:
                print(found, version, flush=True)
        except TimeoutError as error:
            sys.exit(f"{error}: {log_of(folder, name)}")
        finally:
            end(server)


def program(name: str) -> str:
    """Return where a server's program is; distributions have some of them where only root looks."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        sys.exit(f"{name} is not installed")
    return found


def version_of(server: str) -> str:
    said = subprocess.run([server, "--version"], check=True, capture_output=True, text=True, timeout=_READY_WITHIN_S)
    found = re.search(r"\bv=?([\d.]+)", said.stdout + said.stderr)
    return found[1] if found else "unknown"


def redis_command(folder: Path) -> list[str]:
    # Nothing is saved, and no subscriber is cut off because it is behind.
    return [*redis_program(folder), "--appendonly", "no", "--client-output-buffer-limit", "pubsub 0 0 0"]


def durable_redis_command(folder: Path) -> list[str]:
    # What is sent together is synced together, before it is answered; the file is not written anew meanwhile.
    always = ["--appendonly", "yes", "--appendfsync", "always"]
    return [*redis_program(folder), *always, "--auto-aof-rewrite-percentage", "0"]


def redis_program(folder: Path) -> list[str]:
    command = [program("redis-server"), "--port", "0", "--unixsocket", str(folder / "redis"), "--dir", str(folder)]
    return [*command, "--save", ""]


def redis_address(folder: Path) -> str | None:
    path = str(folder / "redis")
    with socket.socket(socket.AF_UNIX) as connection:
        return path if connection.connect_ex(path) == 0 else None


def nats_command(folder: Path) -> list[str]:
    return with_settings(folder, program("nats-server"), _NATS.format(folder=json.dumps(str(folder))))


def jetstream_command(folder: Path) -> list[str]:
    command = program("nats-server")
    sync = "sync_interval: always" if syncs_always(version_of(command)) else ""
    store = json.dumps(str(folder / "jetstream"))
    settings = _NATS.format(folder=json.dumps(str(folder))) + _JETSTREAM.format(folder=store, sync=sync)
    return with_settings(folder, command, settings)


def write_leaf(folder: Path, port: int, parent_port: int | None) -> None:
    """Write the settings of a server that takes leaf nodes at a port, and is one of a parent, if that has a port."""
    url = f'{{ url: "nats-leaf://127.0.0.1:{parent_port}" }}'
    parents = "" if parent_port is None else f"remotes: [ {url} ]"
    leaves = f"leafnodes {{ host: 127.0.0.1, port: {port}\n {parents} }}"
    with_settings(folder, "", f"{_NATS.format(folder=json.dumps(str(folder)))}{leaves}\n")


def leaf_command(folder: Path) -> list[str]:
    return [program("nats-server"), "--config", str(folder / "nats.conf")]


def leaf_address(folder: Path) -> str | None:
    """Return the address for clients, once the server is connected to its parent."""
    is_below = "remotes" in (folder / "nats.conf").read_text()
    is_connected = "Leafnode connection created" in (folder / "leaf.log").read_text()
    return nats_address(folder) if is_connected or not is_below else None


def syncs_always(version: str) -> bool:
    """Tell whether a NATS of that version can sync what it stores before it says so; older ones do every 2 minutes."""
    return tuple(map(int, re.findall(r"\d+", version)[:2])) >= _SYNCS_ALWAYS_SINCE


def with_settings(folder: Path, command: str, settings: str) -> list[str]:
    file = folder / "nats.conf"
    file.write_text(settings)
    return [command, "--config", str(file)]


def nats_address(folder: Path) -> str | None:
    for file in folder.glob("*.ports"):
        text = file.read_text()
        if text.endswith("}"):
            return str(json.loads(text)["nats"][0])
    return None


def once_ready(server: "subprocess.Popen[bytes]", address: Callable[[], str | None]) -> str:
    """Wait until a server takes connections; return where. TimeoutError if it does not, or has ended."""
    deadline_s = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline_s and server.poll() is None:
        found = address()
        if found is not None:
            return found
        wait(_LOOK_EVERY_S)
    raise TimeoutError("it does not take connections")


def log_of(folder: Path, name: str) -> str:
    lines = Path(folder, f"{name}.log").read_text().splitlines()
    return lines[-1] if lines else "it said nothing"


def end(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()


SERVERS: dict[str, tuple[Callable[[Path], list[str]], Callable[[Path], str | None]]] = {
    "redis": (redis_command, redis_address),
    "durable-redis": (durable_redis_command, redis_address),
    "nats": (nats_command, nats_address),
    "jetstream": (jetstream_command, nats_address),
    "leaf": (leaf_command, leaf_address),
}


if __name__ == "__main__":
    main()
