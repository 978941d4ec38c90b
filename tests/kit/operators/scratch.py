"""Folders for tests that cannot ask pytest for one, since they are described in a table."""

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp


def scratch() -> Path:
    """Return a new folder, which is gone when this process ends."""
    return Path(mkdtemp(dir=_root()))


@cache
def _root() -> str:
    root = mkdtemp(prefix="tidewheel-test-")
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root
