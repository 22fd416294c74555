"""Fixtures that all tests share; float64 is on unless a test asks for float32."""

from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with reference values and real tables that are not part of the product."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder shared/ with reference values is not beside the checkout")
    return folder
