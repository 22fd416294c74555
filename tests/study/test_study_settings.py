"""What decides the numbers of a study, and what a session with other settings is told."""

import json
import os

import jax
import jax.numpy as jnp
import pytest
from small_studies import evaluate_mean, run_mean, simulate_mean

from lisdd_jax.study.engine import StudyFolderError, read_study
from lisdd_jax.study.engine.settings import read_settings_text, settings_text


@pytest.fixture
def folder(tmp_path):
    """A study by name, so that nothing but the settings can tell sessions apart."""
    run_mean(out_dir=tmp_path, name="mean", num_replications=2)
    return tmp_path


def resume(folder, **changes):
    return run_mean(out_dir=folder, name="mean", resume=True, **changes)


@pytest.mark.parametrize(
    "context, message",
    [
        (lambda: jax.threefry_partitionable(False), "jax_threefry_partitionable was true and is"),
        (
            lambda: jax.default_matmul_precision("highest"),
            'precision was null and is now "highest"',
        ),
        (lambda: jax.default_prng_impl("rbg"), 'prng_impl was "threefry2x32" and is now "rbg"'),
    ],
)
def test_options_of_jax_are_settings(folder, context, message):
    with context(), pytest.raises(StudyFolderError, match=message):
        resume(folder)
    assert resume(folder).complete


def test_compiler_flags_are_settings_but_for_those_that_change_no_number(folder, monkeypatch):
    flags = os.environ["XLA_FLAGS"]
    first, *others = flags.split()
    neutral = "--xla_force_host_platform_device_count=2 --xla_dump_to=/nowhere"
    monkeypatch.setenv("XLA_FLAGS", f"{' '.join(others)} {neutral} {first}=3 {first}")
    assert resume(folder).complete
    file = folder / "flags.txt"
    file.write_text(flags.replace(" ", "\n"))
    monkeypatch.setenv("XLA_FLAGS", str(file))
    assert resume(folder).complete
    monkeypatch.setenv("XLA_FLAGS", f"{flags} --xla_cpu_enable_fast_math=true")
    with pytest.raises(StudyFolderError, match="XLA_FLAGS was .* and is now .*fast_math"):
        resume(folder)


@pytest.mark.parametrize("package", ["jax", "jaxlib", "lisdd-jax"])
def test_versions_are_settings(folder, package):
    rewrite(folder, **{package: "0.0.1"})
    with pytest.raises(StudyFolderError, match=f'{package} was "0.0.1" and is now'):
        resume(folder)


def test_another_processor_is_told_but_not_refused(folder):
    rewrite(folder, processor="Another 9000")
    with pytest.warns(RuntimeWarning, match="begun on 'Another 9000' .* last digits"):
        again = resume(folder, num_replications=2)
    assert again.cells == read_study(folder).cells


def test_the_threads_of_a_cpu_are_part_of_the_processor(folder, monkeypatch):
    threads = len(os.sched_getaffinity(0)) + 1
    monkeypatch.setenv("NPROC", str(threads))
    with pytest.warns(RuntimeWarning, match=f"goes on on '.*, {threads} threads'"):
        resume(folder, num_replications=2)


def rewrite(folder, **changes):
    """Make the folder one of another session."""
    file = folder / "settings.json"
    file.write_text(settings_text({**read_settings_text(file.read_text()), **changes}))


def test_text_of_settings_returns_and_tells_a_change():
    settings = {"key": ["threefry2x32", 0, 3], "name": "ä"}
    text = settings_text(settings)
    assert read_settings_text(text) == settings
    with pytest.raises(ValueError, match="checksum"):
        read_settings_text(text.replace("3]", "4]").replace("3\n", "4\n"))


@pytest.mark.parametrize("code", [2**40, 2**31, -(2**40)])
def test_a_status_beyond_32_bits_keeps_its_value(code):
    status = lambda data: jnp.where(data[0] > -9, jnp.int64(code), 0)  # noqa: E731
    result = run_mean(evaluate=lambda data, key, mu: {"mean": data[0], "status": status(data)})
    assert [cell.status for cell in result.cells] == [{code: 30}] * 2
    assert json.loads(result.to_json())["cells"][0]["status"] == {str(code): 30}


def test_a_code_too_large_for_the_precision_is_refused_in_words():
    single = (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64(False)
    words = "'status' must fit the integers that JAX is set to"
    with single, pytest.raises(ValueError, match=words):
        run_mean(evaluate=lambda data, key, mu: {"mean": data[0], "status": 2**40})


def test_a_study_without_a_folder_lowers_nothing_for_a_fingerprint():
    assert run_mean(simulate_mean, evaluate_mean).settings["program"] == ""
