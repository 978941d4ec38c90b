"""The runner of pages, and the part of the tutorial that needs no Ray: a page that lies fails."""

from pathlib import Path

import pytest

from tests.kit.docs.pages import Step, agree, run, steps
from tests.packaging.repository import ROOT

TUTORIAL = ROOT / "docs" / "tutorial"


def try_page(folder: Path, *blocks: str, limit_s: float = 30) -> None:
    """Run a page of these blocks, each with its kind on the first line."""
    page = folder / "page.md"
    page.write_text("\n".join(block if block.startswith("<!--") else f"```{block}\n```\n" for block in blocks))
    (folder / "work").mkdir()
    run(page, folder / "work", ROOT, limit_s=limit_s)


def test_the_local_tutorial_runs(tmp_path: Path) -> None:
    """Ten minutes without Ray: each block prints what is shown."""
    run(TUTORIAL / "local.md", tmp_path, ROOT, limit_s=60)


def test_a_page_is_one_session(tmp_path: Path) -> None:
    """Blocks share names and a folder; a class of the page can be pickled; commands are in one shell, of the venv."""
    try_page(
        tmp_path,
        "python\nimport pickle\nclass Tide:\n    pass\n\nopen('made', 'w').write('by Python')",
        "console\n$ cat made; echo\nby Python\n$ mkdir below && cd below\n$ pwd\n.../work/below\n$ which tidewheel\n"
        ".../bin/tidewheel",
        "python\nprint(type(pickle.loads(pickle.dumps(Tide()))).__name__)\nprint(__name__)",
        "text\nTide\n__main__",
        "console\n$ ls ../README.md ../examples/README.md\n../README.md\n../examples/README.md",
    )


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        (["python\nprint(1)", "text\n2"], "page.md:2 shows\n2\n\nand prints\n1"),
        (["python\nprint(1)"], "page.md:2 shows\n\nand prints\n1"),
        (["python\n1", "text\n1"], "page.md:2 shows\n1\n\nand prints\n"),
        (["python\n\n1 / 0"], 'File "page.md", line 3'),
        (["console\n$ echo 1\n2"], "page.md:2 shows\n2\n\nand prints\n1"),
        (["console\n$ echo 1\n1\n$ ls nowhere"], "page.md:4 failed"),
        (["console\n$ false"], "page.md:2 failed"),
        (["console\n$ ls nowhere | head"], "page.md:2 failed"),
        (["python\nimport atexit\n_ = atexit.register(lambda: 1 / 0)"], "ZeroDivisionError"),
    ],
)
def test_a_lie_is_found(tmp_path: Path, blocks: list[str], said: str) -> None:
    """Another output, none, one that is not shown, an error, a command that fails, an error at the end."""
    with pytest.raises(AssertionError) as failed:
        try_page(tmp_path, *blocks)
    assert said in str(failed.value)


def test_a_page_has_a_limit(tmp_path: Path) -> None:
    """A block that does not end fails, and what it has started ends."""
    with pytest.raises(AssertionError, match="no answer in time"):
        try_page(tmp_path, "python\nimport threading\nthreading.Event().wait()", limit_s=1)


@pytest.mark.parametrize(
    "page",
    ["```sh\nls\n```", "```\nls\n```", "```text\nalone\n```", "```console\nls\n```", "```js\nlet a\n```"],
)
def test_a_block_that_cannot_run_is_refused(page: str) -> None:
    """Every block is a program, a command after `$`, or what the block before it prints."""
    with pytest.raises(ValueError, match="line 2: a"):
        steps(page)


@pytest.mark.parametrize(
    ("shown", "printed", "differ", "expected"),
    [
        ("a\nb\n", "a  \nb\n\n", False, True),
        ("a ... c\n", "a b c\n", False, True),
        ("1 a\n", "2 a\n", False, False),
        ("1 a\n", "234 a\n", True, True),
        ("job-0123abcd  5\n", "job-deadbeef 77\n", True, True),
        ("1 a\n", "1 b\n", True, False),
    ],
)
def test_texts_are_compared(shown: str, printed: str, differ: bool, expected: bool) -> None:
    """Dots stand for any text, and numbers for others only where the page says so."""
    assert agree(Step("python", 1, "", shown, differ), printed) == expected
