import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax import Config, PublishedConfig
from lisdd_jax.config import MODES, Settings, mode_of, settings_of
from lisdd_jax.diagnosis import METHODS


def fields(kind):
    return {entry.name for entry in dataclasses.fields(kind)}


def test_paper_gives_settings_of_the_published_method():
    found = Config.paper(trim=0.2, num_cells=8)
    assert type(found) is PublishedConfig
    assert (found.trim, found.num_cells, found.alpha) == (0.2, 8, 0.05)
    assert (found.method, Config().method) == ("published", "default")


def test_each_method_has_its_own_settings_and_shares_some():
    assert fields(PublishedConfig) & fields(Config) == fields(Settings)
    assert "trim" not in fields(Config)
    assert "negligible" not in fields(PublishedConfig)
    with pytest.raises(TypeError, match="negligible"):
        Config.paper(negligible=1.0)


def test_every_setting_is_documented():
    for kind in (Settings, PublishedConfig, Config):
        own = fields(kind) - (fields(Settings) if kind is not Settings else set())
        for name in own:
            assert f"      {name}: " in kind.__doc__, name


@pytest.mark.parametrize("kind", [Config, PublishedConfig])
def test_numbers_are_traced_and_counts_are_static(kind):
    counts = {e.name for e in dataclasses.fields(kind) if e.metadata.get("static")}
    leaves = jax.tree.leaves(kind())
    assert len(leaves) == len(fields(kind)) - len(counts)
    assert all(isinstance(leaf, float) for leaf in leaves)
    checked = kind().checked(jnp.float32)
    assert {leaf.dtype for leaf in jax.tree.leaves(checked)} == {np.dtype(np.float32)}
    assert type(checked) is kind


def test_every_mode_has_a_method():
    assert set(MODES.values()) == METHODS.keys()
    for mode, kind in MODES.items():
        assert mode_of(kind()) == mode


def test_settings_from_words():
    assert settings_of("paper", {"trim": 0.1}) == Config.paper(trim=0.1)
    assert settings_of("default", {"negligible": 2.0}) == Config(negligible=2.0)


@pytest.mark.parametrize(
    "mode, changes, words",
    [
        ("printed", {}, r"mode must be one of \('paper', 'default'\), got 'printed'"),
        ("paper", {"negligible": 1.0}, "'negligible' belongs to the default method"),
        ("default", {"trim": 0.1}, "'trim' belongs to the published method"),
        ("default", {"alhpa": 0.1}, "settings of the default method are .*'alhpa' is no setting"),
        ("paper", {"num_cells": 1}, "num_cells must be an integer of at least 2"),
    ],
)
def test_words_that_are_no_settings(mode, changes, words):
    with pytest.raises(ValueError, match=words):
        settings_of(mode, changes)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"trim": 0.6}, "config.trim must lie between 0 and 0.5"),
        ({"alpha": np.nan}, "config.alpha must lie between 0 and 1"),
        ({"tolerance": -1}, "config.tolerance must lie between 0 and inf"),
        ({"alpha_cell": np.ones(2)}, "config.alpha_cell must be a single number"),
    ],
)
def test_numbers_out_of_their_range(changes, words):
    with pytest.raises(ValueError, match=words):
        Config.paper(**changes).checked(jnp.float64)
