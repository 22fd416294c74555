"""The Python of the documentation runs as a reader would type it, and prints what stands there."""

import re

import pages
import pytest

import lisdd_jax

SCRIPTS = sorted(path.stem for path in pages.EXAMPLES.glob("*.py"))
# Longer ones, whose numbers are judged in test_hybrid_examples.py.
JUDGED_ELSEWHERE = {"building_zone", "neural_hybrid", "oscillator_frequency"}


@pytest.mark.parametrize(
    "page", [p for p in pages.PAGES if "```python" in p.read_text()], ids=lambda page: page.stem
)
def test_pages_print_what_they_show(page):
    with pages.user_settings():
        outputs = pages.run_page(page)
    assert outputs
    for output in outputs:
        assert output.shown in (None, output.printed)


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in JUDGED_ELSEWHERE])
def test_examples_print_what_is_listed(name):
    shown, _ = pages.listed_scripts()[name]
    with pages.user_settings():
        assert pages.run_script(name) == shown


def test_every_example_is_listed_with_its_output():
    listed = pages.listed_scripts()
    assert set(listed) == set(SCRIPTS) - JUDGED_ELSEWHERE
    assert all(shown for shown, _ in listed.values())


def test_every_table_is_in_the_gallery_with_source_and_licence():
    gallery = (pages.ROOT / "docs" / "gallery.md").read_text()
    readme = (pages.EXAMPLES / "README.md").read_text()
    tables = sorted(path.stem for path in pages.EXAMPLES.glob("*.csv"))
    assert tables == sorted(path.stem for path in pages.EXAMPLES.glob("*.toml"))
    for name in tables:
        assert (pages.ROOT / "docs" / "gallery" / f"{name}.png").is_file()
        assert f"(gallery/{name}.png)" in gallery
        _, _, section = readme.partition(f"(`{name}`)\n")
        section, _, _ = section.partition("\n## ")
        assert "Source: " in section
        assert "Licence: " in section.replace("\n", " ")


def test_verdicts_are_all_explained():
    text = (pages.ROOT / "docs" / "verdicts.md").read_text()
    explained = re.findall(r"^\*\*(.+?)\.\*\* ", text, re.MULTILINE)
    names = {verdict.name.replace("_", " ").capitalize() for verdict in lisdd_jax.Verdict}
    assert set(explained) == names


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text() for path in (pages.ROOT / "docs" / "reference").glob("*.md"))
    entries = set(re.findall(r"^::: (.+)$", text, re.MULTILINE))
    assert {f"lisdd_jax.{name}" for name in lisdd_jax.__all__} <= entries
