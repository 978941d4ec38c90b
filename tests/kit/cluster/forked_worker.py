"""What a cluster of tests starts instead of a worker of Ray: it has the nursery fork one, and ends.

The new process gets the arguments, the environment and the files of this one.
"""

import json
import os
import socket
import sys

NURSERY = "TIDEWHEEL_TESTS_NURSERY"
"""The variable with the path of the socket of `worker_nursery.py`."""


def main() -> None:
    """Ask for a worker, which takes the place of this process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nursery:
        nursery.connect(os.environ[NURSERY])
        socket.send_fds(nursery, [json.dumps([sys.argv[1:], dict(os.environ)]).encode()], [0, 1, 2])


if __name__ == "__main__":
    main()
