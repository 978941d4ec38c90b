"""The open files of this process, for tests that nothing is left behind."""

from contextlib import suppress
from pathlib import Path


def open_files() -> set[str]:
    """Return, for each open file, its number and what it is: ``7 socket:[4711]``."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that by which the folder itself is read
            found.add(f"{entry.name} {entry.readlink()}")
    return found


def listening_ports() -> set[str]:
    """Return the sockets among the open files that listen on TCP."""
    tables = [Path(f"/proc/self/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    listening = {f"socket:[{line.split()[9]}]" for lines in tables for line in lines if line.split()[3] == "0A"}
    return {file for file in open_files() if file.partition(" ")[2] in listening}
