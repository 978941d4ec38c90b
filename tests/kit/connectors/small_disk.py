"""A disk that is soon full, in memory. It has to be mounted, which root alone may do."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(size_mb: int, owner: str) -> Iterator[Path]:
    """Mount a disk of some megabytes for a block; skip the test where that is not possible."""
    place = Path(tempfile.mkdtemp(prefix="tw-disk-", dir="/tmp"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a small disk cannot be mounted here, which needs root: {done.stderr.strip()}")
        try:
            shutil.chown(place, owner)
            yield place
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
    finally:
        place.rmdir()
