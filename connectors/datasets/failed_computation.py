"""The message for a dataset that cannot be computed, with the error of the program's own function and its line."""

import re

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TASK = re.compile(r"^ray::(.+?)\(\) \(pid=", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.+?)", line (\d+), in (.+)$', re.MULTILINE)
_FIRST = "The above exception was the direct cause of the following exception:"


def said_of(error: BaseException, name: str, computed: int) -> str:
    """Return a message for an error of Ray Data.

    Args:
        error: the error; if a task has failed, its text is the traceback of the task.
        name: the name of the source.
        computed: the number of blocks computed before.

    >>> said_of(ValueError("no number"), "tides", 2)
    "dataset 'tides' cannot be computed behind its first 2 blocks: ValueError: no number"
    """
    text = _COLOURS.sub("", str(error))
    task = _TASK.search(text)
    where = f", in {task[1]}" if task else ""
    if task is None:
        what = f"{type(error).__name__}: {text}".removesuffix(": ")
    else:
        first = text.partition(_FIRST)[0].strip()
        frames = _FRAME.findall(first)
        lines = [line for line in first.splitlines() if line.strip()]
        end = max((number for number, line in enumerate(lines) if line.startswith("  ")), default=-1)
        what = "\n".join(line for line in lines[end + 1 :] if not line.startswith("ray::"))
        if frames:
            file, line, function = frames[-1]
            what = f"{what} (line {line} of {file}, in {function})"
    return f"dataset {name!r} cannot be computed behind its first {computed} blocks{where}: {what}"
