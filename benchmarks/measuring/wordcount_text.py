"""The text whose words `records/wordcount.py` counts, and its reader, for interpreters without tidewheel too."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20


def write_text(folder: Path, parts: int, every: int) -> int:
    """Write files that each have the source of Python's standard library; return how many words there are in all.

    Of its lines only one in ``every`` is taken. Modules in its folders, such as its tests, are not on every machine.
    Lines in which anything but spaces separates words are left out, so that all agree on what a word is.
    """
    library = Path(sysconfig.get_path("stdlib"))
    files = [*sorted(library.glob("*.py")), library / "pydoc_data" / "topics.py"]
    lines = [line for file in files for line in file.read_text(encoding="utf-8", errors="replace").split("\n")]
    usual = [line for line in lines if line.isascii() and line.isprintable()][::every]
    write_parts(folder, parts, "\n".join(usual) + "\n")
    return parts * sum(len(line.split()) for line in usual)


def write_parts(folder: Path, parts: int, text: str) -> None:
    """Write the same text to each of several files."""
    folder.mkdir()
    for part in range(parts):
        (folder / f"{part:02}.txt").write_text(text, encoding="utf-8")


def files_of(folder: Path) -> list[Path]:
    """Return the files, in order."""
    return sorted(folder.iterdir())


def blocks_of(file: Path) -> Iterator[bytes]:
    """Read a file in blocks of whole lines, of about a megabyte."""
    with file.open("rb") as opened:
        while block := opened.read(BLOCK_BYTES):
            yield block + opened.readline()
