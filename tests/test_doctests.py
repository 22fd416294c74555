"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import lisdd_jax

MODULES = [
    module.name
    for module in pkgutil.walk_packages(lisdd_jax.__path__, "lisdd_jax.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0


def test_some_examples_exist() -> None:
    finder = doctest.DocTestFinder()
    tests = [test for name in MODULES for test in finder.find(importlib.import_module(name))]
    assert sum(bool(test.examples) for test in tests) >= 10
