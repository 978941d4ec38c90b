"""examples/README.md and benchmarks/README.md list the programs of their folders; docs/examples.md is of the first."""

import re
from pathlib import Path

import pytest

from docs.examples_page import PAGE, page
from tests.examples.index import EXAMPLES, programs
from tests.packaging.repository import ROOT, imports_of

BENCHMARKS = ROOT / "benchmarks"


def test_the_page_is_as_new() -> None:
    """Whoever changes the index of the examples runs `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`, and commit docs/examples.md"


def test_every_example_is_listed_once() -> None:
    """A program is a file that can be run; those in `parts/` and `data/` are no examples."""
    subjects = [folder for folder in EXAMPLES.iterdir() if folder.is_dir() and folder.name not in {"parts", "data"}]
    files = [file.relative_to(ROOT) for folder in subjects for file in folder.glob("*.py")]
    assert sorted(program.file for program in programs().values()) == sorted(files)
    assert [file for file in files if 'if __name__ == "__main__":' not in (ROOT / file).read_text()] == []


def test_each_example_has_the_command_that_runs_it() -> None:
    """As a module, as it imports others by their full names; by its path if it does not; or by `make`."""
    wrong = {program.name for program in programs().values() if not runs(program.command, program.file)}
    assert wrong == set()


def runs(command: str, file: Path) -> bool:
    """Return whether a command, given in the root of the project, runs a file."""
    module = f"python -m {'.'.join(file.with_suffix('').parts)}"
    match command.split():
        case ["make", target]:
            return f"\n{target}: $(VENV)/installed\n\t$(VENV)/bin/{module}\n" in (ROOT / "Makefile").read_text()
        case ["python", path]:
            return path == str(file) and not re.search(
                "^(from|import) examples", (ROOT / file).read_text(), re.MULTILINE
            )
        case _:
            return command == module


def imported(file: Path) -> set[str]:
    """Return the folders of examples and benchmarks that a file imports from, such as ``examples.parts``."""
    return {".".join(one.name.split(".")[:2]) for one in imports_of(file) if one.top in {"examples", "benchmarks"}}


def test_programs_import_no_programs() -> None:
    """They share `parts/`, and benchmarks what is below it, in the order that their index says."""
    order = ["benchmarks.measuring", "benchmarks.contestants", "benchmarks.parts"]
    for file in [*EXAMPLES.rglob("*.py"), *BENCHMARKS.rglob("*.py")]:
        own = ".".join(file.parent.relative_to(ROOT).parts)
        allowed = {"examples.parts", *(order[: order.index(own) + 1] if own in order else order)}
        if file.name == "incremental.py":
            allowed.add("examples.collections")  # it measures one of the examples
        if file == BENCHMARKS / "readme.py":
            continue  # it runs the others
        assert imported(file) <= allowed, file


def test_every_benchmark_is_listed_once_with_its_command() -> None:
    """A program is a file outside of the folders with parts of programs."""
    apart = {"contestants", "measuring", "parts"}
    files = [file.relative_to(ROOT) for file in BENCHMARKS.rglob("*.py") if file.parent.name not in apart]
    modules = [".".join(file.with_suffix("").parts) for file in files]
    listed = re.findall(r"^\|.*\| `python -m ([\w.]+)` \|", (BENCHMARKS / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(modules)
    assert [file for file in files if 'if __name__ == "__main__":' not in (ROOT / file).read_text()] == []


@pytest.mark.parametrize("index", [EXAMPLES / "README.md", BENCHMARKS / "README.md"], ids=["examples", "benchmarks"])
def test_links_of_an_index_lead_somewhere(index: Path) -> None:
    """To files of its folder, and to pages of the documentation."""
    links = re.findall(r"\]\(([^)#]+)", index.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (index.parent / link).is_file()] == []


def test_commands_of_pages_run_modules_that_exist() -> None:
    """`python -m examples.…` and `python -m benchmarks.…`, and paths behind `python`, in pages and in docstrings."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *EXAMPLES.rglob("*.*"), *BENCHMARKS.rglob("*.*")]
    texts = [text for text in texts if text.suffix in {".md", ".py"} and text.name != "CHANGELOG.md"]
    folder = "(?:examples|benchmarks)"
    named = re.compile(rf"python (?:-m (?P<module>{folder}\.[\w.]+\w)|(?P<path>{folder}/\S+\.py))")
    files = {
        match["path"] or match["module"].replace(".", "/") + ".py"
        for text in texts
        for match in named.finditer(text.read_text(encoding="utf-8"))
    }
    assert len(files) > 40
    assert {file for file in files if not (ROOT / file).is_file()} == set()
