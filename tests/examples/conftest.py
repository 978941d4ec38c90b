"""The folder of the examples, which can be imported as they import each other."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.fixture
def examples_on_ray(ray_cluster: str) -> Iterator[None]:
    """Let Ray's workers have the modules of examples that are loaded; as programs, examples are found by their path."""
    from ray import cloudpickle

    loaded = [module for name, module in sys.modules.items() if (EXAMPLES / f"{name}.py").exists()]
    for module in loaded:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in loaded:
        cloudpickle.unregister_pickle_by_value(module)
