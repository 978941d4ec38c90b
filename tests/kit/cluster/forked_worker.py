"""What a cluster of tests starts instead of a worker of Ray: it has the nursery fork one, and ends.

The new process gets the arguments, the environment and the files of this one. A worker with a runtime environment is
Ray's own, because Python reads its environment when it starts.
"""

import json
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

NURSERY = "TIDEWHEEL_TESTS_NURSERY"
"""The variable with the path of the socket of `worker_nursery.py`."""

_PLAIN = "--runtime-env-hash=0"


def rays_own() -> Path:
    """Return Ray's program of a worker, without importing Ray."""
    ray = find_spec("ray")
    assert ray is not None
    assert ray.origin is not None
    return Path(ray.origin).with_name("_private") / "workers" / "default_worker.py"


def main() -> None:
    """Ask for a worker, which takes the place of this process."""
    if _PLAIN not in sys.argv:
        os.execv(sys.executable, [sys.executable, str(rays_own()), *sys.argv[1:]])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nursery:
        nursery.connect(os.environ[NURSERY])
        socket.send_fds(nursery, [json.dumps([sys.argv[1:], dict(os.environ)]).encode()], [0, 1, 2])


if __name__ == "__main__":
    main()
