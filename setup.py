"""The packages of tidewheel: each root folder that has a link in src/tidewheel/, with the folders in it.

src/tidewheel/ holds one link for each root folder, for the tools that read sources without installing them (mypy,
pyright, editors, pytest's doctests). Nothing else in the repository is shipped.
"""

from pathlib import Path

from setuptools import setup

FACADE = Path("src") / "tidewheel"

packages = {"tidewheel": FACADE.as_posix()}
for root in sorted(link.name for link in FACADE.iterdir() if link.is_symlink()):
    for module in sorted(Path(root).rglob("__init__.py")):
        packages[".".join(("tidewheel", *module.parent.parts))] = module.parent.as_posix()

setup(packages=list(packages), package_dir=packages)
