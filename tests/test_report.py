"""Reports: the same findings for people and for programs, and nothing undefined passed as fact."""

import dataclasses
import io
import json
import math
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from report_data import CONFIG, NAN, OUTCOMES, diagnosis, summary_of, write_problem
from rich.console import Console

from lisdd_jax import library
from lisdd_jax.report import (
    figure_words,
    figures,
    files,
    html,
    identifiability,
    json_report,
    numbers,
    reasons,
    summarize,
    svg,
    terminal,
    words,
)
from lisdd_jax.report.curves import Curves, is_line, thinned
from lisdd_jax.report.style import PALETTE
from lisdd_jax.results import Verdict


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_problem(tmp_path_factory.mktemp("tables") / "t.csv")


def printed(summary, *, encoding="utf-8", **options):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    console = Console(**{"file": stream, "width": 80, **options})
    terminal.print_report(summary, console, source="t.csv")
    return stream.buffer.getvalue().decode(encoding)


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_has_the_agreed_keys(data):
    found = strict(json_report.to_json(summary_of("discrepancy", data)))
    agreed = ["verdict", "physics", "scale", "law_scatter", "outliers", "place", "form"]
    agreed += ["regions", "test", "cells", "rows", "warnings", "config", "version"]
    assert set(agreed) <= set(found)
    # What the published method does not ask is null, not a number.
    assert found["place"] == {"p_value": None, "log_p_value": None, "certified": False}
    assert found["law_scatter"] is None
    assert found["form"] == {"certified": True}
    assert found["verdict"] == "discrepancy"
    assert found["physics"] == [
        {"name": "intercept", "coefficient": 1.0, "stderr": 0.01},
        {"name": "x + 0*v", "coefficient": -2.0, "stderr": 0.02},
    ]
    (region,) = found["regions"]
    assert region["axis"] == "x"
    assert (region["lower"], region["upper"], region["count"]) == (1.0, 2.0, 10)
    assert (region["p_value"], region["log_p_value"]) == (0.0, -2000.0)
    assert region["terms"] == [{"name": "x^3", "coefficient": 0.2, "stderr": 0.013}]
    # By holdout error: the pair (0.95) before x^2 alone (1.0).
    assert region["equivalent"] == [["x^2", "x^3"], ["x^2"]]
    test = found["test"]
    assert (test["statistic"], test["df_num"], test["df_den"]) == (3826.0, 1.0, 16.0)
    assert (test["p_value"], test["log_p_value"], test["reject"]) == (0.0, -3826.0, True)
    cell = {"lower": 1.0, "upper": 2.0, "count": 10, "statistic": 900.0, "flagged": True}
    assert cell.items() <= found["cells"][3].items()
    assert found["rows"] == {"read": 41, "used": 39, "dropped": 2, "excluded": 0}
    assert found["config"] == CONFIG
    assert found["version"] == "1.2.3"


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_verdict_has_words_and_strict_json(name, data):
    summary = summary_of(name, data)
    assert summary.verdict == name
    found = strict(json_report.to_json(summary))
    assert found["verdict"] == name
    assert words.headline(summary)
    assert found["reasons"]
    assert found["next_steps"]
    everything = " ".join([words.headline(summary), *found["reasons"], *found["next_steps"]])
    assert "nan" not in everything.lower()


def test_every_verdict_of_the_library_is_told():
    assert {verdict.name.lower() for verdict in Verdict} == set(OUTCOMES) == set(words.TITLES)


def test_undefined_numbers_become_null(data):
    found = strict(json_report.to_json(summary_of("insufficient_data", data)))
    assert found["scale"] is None
    assert found["physics"][0]["coefficient"] is None
    assert found["cells"][0]["p_value"] is None
    assert found["status"] == "ZERO_SCALE"
    assert any("noise scale is zero" in reason for reason in found["reasons"])


@pytest.mark.parametrize("name", OUTCOMES)
def test_terminal_report_fits_80_columns_without_colour(name, data):
    text = printed(summary_of(name, data))
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r" \n", text)
    assert words.TITLES[name].upper() in text


@pytest.mark.parametrize("name", ["discrepancy", "clean"])
def test_every_cell_stands_on_a_line_of_its_own(name, data):
    """Also where no cell has a mark: an empty column would fold labels of fourteen characters."""
    summary = summary_of(name, data)
    cells = tuple(
        dataclasses.replace(cell, lower=cell.lower + 14.0, upper=cell.upper + 14.0, noisier=False)
        for cell in summary.cells
    )
    text = printed(dataclasses.replace(summary, cells=cells))
    whole = re.findall(r"^ +\d+\.\d+ to \d+\.\d+ +\d+ ", text, re.MULTILINE)
    assert len(whole) == len(cells)


@pytest.mark.parametrize("offset, bars", [(0.0, True), (1.7e12, False)])
def test_no_number_of_the_map_is_cut(data, offset, bars):
    summary = summary_of("discrepancy", data)
    cells = tuple(
        dataclasses.replace(cell, lower=cell.lower + offset, upper=cell.upper + offset)
        for cell in summary.cells
    )
    for width in (80, 50):
        text = printed(dataclasses.replace(summary, cells=cells), width=width)
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width
        assert ("residual rms" in text) == (bars and width == 80)
        assert re.search(r" 3\.7 +\+3\.3 +-868\.6 +◆ flagged", text)


def test_terminal_report_says_where_what_and_how_sure(data):
    text = printed(summary_of("discrepancy", data))
    assert "+ 0.2 x^3   for x >= 1.000" in text
    assert "log10 p = -1661.6" in text
    assert re.search(r"1\.000 to 2\.000 +10 +█+ +3\.7 +\+3\.3 +-868\.6 +◆ flagged", text)
    assert re.search(r"x \+ 0\*v +-2\.000 +0\.020", text)
    assert "41 read from t.csv, 39 used, 2 dropped for missing values" in text
    assert "predict as well: x^2\n" in text
    assert "95 % intervals of the ends: 0.980 to 1.010\n" in text


def test_terminal_report_in_ascii_and_in_colour(data):
    summary = summary_of("discrepancy", data)
    assert "* flagged" in printed(summary, encoding="ascii")
    colored = printed(summary, force_terminal=True, color_system="standard")
    assert "\x1b[1;31mDISCREPANCY" in colored


def test_markup_in_names_is_printed_as_it_is(tmp_path, data):
    named = dataclasses.replace(summary_of("clean", data), response="[red]y[/red]", axis="<b>&x")
    assert "[red]y[/red]" in printed(named)
    page = html.render(named, data)
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;x" in page


def test_many_cells_become_a_strip(data):
    summary = summary_of("discrepancy", data)
    many = dataclasses.replace(summary, cells=summary.cells * 20)
    text = printed(many)
    assert "80 cells from" in text
    assert text.count("◆") == 21


class Page(HTMLParser):
    """Checks nesting and collects tags and links."""

    VOID = ("meta", "br", "path", "use", "rect", "line")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.ids, self.images = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.images += [dict(attrs)] if tag == "svg" else []
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name == "xlink:href"]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", OUTCOMES)
def test_page_is_well_formed_and_self_contained(name, data):
    text = html.render(summary_of(name, data), data, source="t.csv")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert page.tags.count("h1") == 1
    assert page.tags.count("figure") == page.tags.count("figcaption")
    assert page.tags.count("table") == page.tags.count("caption")
    assert 'lang="en"' in text
    # What parts of a figure refer to is in the page, once.
    assert len(page.ids) == len(set(page.ids))
    referred = set(re.findall(r"url\(#([^)]*)\)", text)) | {link[1:] for link in page.links}
    assert referred == set(page.ids)
    for image in page.images:
        assert image["role"] == "img"
        assert image["aria-label"].endswith(".")
    assert [image["class"] for image in page.images] == ["wide", "narrow"] * (len(page.images) // 2)
    whole = 5 if summary_of(name, data).physics[0].coefficient == 1.0 else 0
    assert page.tags.count("figure") == whole


def test_figures_are_repeatable_and_hold_text(data):
    curves = Curves(summary_of("discrepancy", data), data)
    first = svg.figure_elements("residuals", curves, 'The "residuals".')
    assert first == svg.figure_elements("residuals", curves, 'The "residuals".')
    assert "missing term" in first
    start = '<svg class="wide" role="img" aria-label="The &quot;residuals&quot;." viewBox='
    assert first.startswith(start)


@pytest.mark.parametrize("name", figures.DRAWINGS)
def test_figures_take_the_colours_and_the_width_of_the_page(name, data):
    drawn = svg.figure_elements(name, Curves(summary_of("discrepancy", data), data), "What.")
    for color in re.findall(r"(?:fill|stroke): *([^;\"]+)", drawn):
        assert color == "none" or re.fullmatch(r"var\(--(\w+), #\w{6}\)", color)[1] in PALETTE
    # A phone of 320 pixels leaves 288 to a figure, and the wide one is shown from 620 on.
    for width, pixels in (("wide", 620), ("narrow", 288)):
        (element,) = re.findall(rf'<svg class="{width}".*?</svg>', drawn, re.DOTALL)
        (extent,) = re.findall(r'viewBox="0 0 ([\d.]+) ', element)
        sizes = [float(size) for size in re.findall(r"font(?:-size)?: *([\d.]+)px", element)]
        assert min(sizes) * pixels / float(extent) >= 11


@pytest.mark.parametrize("name", ["discrepancy", "holds_nearly"])
def test_figures_are_told_in_words(name, data):
    curves = Curves(summary_of(name, data), data)
    told = {figure: figure_words.describe_figure(figure, curves) for figure in figures.DRAWINGS}
    assert not any("nan" in text or "undefined" in text for text in told.values())
    if name == "discrepancy":
        assert told["fit"] == (
            "Points of y at 39 rows over x from -1.800 to 2.000, the other terms of the physics at"
            " their means, and the line of the physics. For x >= 1.000 the rows leave that line, by"
            " + 0.2 x^3."
        )
        assert told["map"] == (
            "A bar for each of 4 cells of x. 1 flagged cell, of height 3.7. 3 other cells, of"
            " height 1.0."
        )
    else:
        assert told["record"].endswith("order of the table. Neighbours correlate by 0.00.")


def test_other_terms_are_held_at_their_means(data):
    """A term that is no function of the axis, and one that is."""
    sources = [library.Term.from_expression(text) for text in ("v", "x")]
    design = np.stack([np.arange(39.0), data.axis], axis=1)
    response = design @ [1.0, -2.0]
    problem = dataclasses.replace(
        data, physics=library.Library(tuple(sources)), design=design, response=response
    )
    curves = Curves(summary_of("clean", problem), problem)
    assert [term.name for term in curves.others] == ["v"]
    np.testing.assert_allclose(curves.physics, response)
    np.testing.assert_allclose(curves.shift, np.arange(39.0) - 19)
    np.testing.assert_allclose(curves.physics - curves.shift, 19 - 2 * data.axis)


def test_points_of_a_figure():
    assert thinned(np.arange(10), 20).tolist() == list(range(10))
    some = thinned(np.arange(1000), 7)
    assert (len(some), some[0], some[-1]) == (7, 0, 999)
    assert is_line(np.linspace(0, 1, 50) ** 2)
    assert not is_line(np.random.default_rng(0).normal(size=50))


def test_cells_and_regions_are_reconciled(data):
    summary = summary_of("discrepancy", data)
    assert list(words.cells_and_regions(summary)) == []
    (region,) = summary.regions
    inner = dataclasses.replace(summary, regions=(dataclasses.replace(region, lower=1.3),))
    (told,) = words.cells_and_regions(inner)
    assert told.endswith("lie in a region; ends of a region lie within cells, at 1.300")
    assert words.sentence(told) in html.render(inner, data)


def test_dollars_in_names_are_no_mathematics(data):
    summary = dataclasses.replace(summary_of("discrepancy", data), axis="a$b^$", response="$\\x")
    for name in ("map", "residuals"):
        assert "a$b^$" in svg.figure_elements(name, Curves(summary, data), "What.")


def test_certificate_for_another_region_is_told(data):
    other = diagnosis().test
    other = dataclasses.replace(
        other, flagged=np.array([0, 0, 1, 1], bool), support=np.array([True, False, False])
    )
    summary = summarize(diagnosis(test=other), data, config=CONFIG, version="1")
    told = " ".join(summary.warnings)
    assert "the certificate is for x^2, chosen on half of the rows" in told
    assert "the certificate is for x >= 0.000" in told


def test_dropped_rows_and_thin_cells_are_told(data):
    thin = dataclasses.replace(diagnosis().cells, count=np.array([0, 4, 25, 10]))
    summary = summarize(diagnosis(cells=thin), data, config=CONFIG, version="1")
    assert "2 of 41 rows dropped for missing values in v (2)" in summary.warnings
    assert any(
        "2 of 4 cells hold fewer than 5 rows (1 of them none)" in w for w in summary.warnings
    )


def test_larger_noise_is_told_apart_from_a_wrong_mean(data):
    noisier = dataclasses.replace(diagnosis().cells, noisier=np.array([0, 1, 0, 0], bool))
    summary = summarize(diagnosis(cells=noisier), data, config=CONFIG, version="1")
    told = "the noise is larger, but the mean not wrong, for -1.000 <= x < 0.000"
    assert told in reasons.reasons(summary)
    assert "○ noisier" in printed(summary)
    assert strict(json_report.to_json(summary))["cells"][1]["noisier"]


@pytest.mark.parametrize(
    "log_p, words_told",
    [
        (0.0, "deviate, but held-out rows do not confirm that region (p = 1)"),
        (-1.0, "deviate, but held-out rows do not confirm that region (p = 0.37)"),
        (-7.0, "deviate (p = 0.00091)"),
    ],
)
def test_evidence_of_a_region_is_not_overstated(data, log_p, words_told):
    regions = dataclasses.replace(
        diagnosis().regions,
        log_p_value=np.array([log_p, NAN]),
        p_value=np.array([math.exp(log_p), NAN]),
    )
    summary = summarize(diagnosis(regions=regions), data, config=CONFIG, version="1")
    assert reasons.reasons(summary)[0] == f"10 rows with x >= 1.000 {words_told}"


def test_what_evidence_does_not_pay_for_is_told(data):
    regions = dataclasses.replace(
        diagnosis().regions,
        log_p_value=np.array([-7.0, NAN]),
        p_value=np.array([math.exp(-7.0), NAN]),
        same_rows=np.array(True),
    )
    summary = summarize(diagnosis(regions=regions), data, config=CONFIG, version="1")
    assert reasons.reasons(summary)[0] == (
        "10 rows with x >= 1.000 deviate (p = 0.00091 on the same rows that chose them, so too"
        " small)"
    )
    (region,) = strict(json_report.to_json(summary))["regions"]
    assert region["same_rows"]
    assert not region["bound"]


def test_rows_beyond_the_axis_belong_to_a_region_that_reaches_its_end(data):
    (region,) = summarize(diagnosis(), data, config=CONFIG, version="1").regions
    assert region.contains(np.array([0.99, 1.0, 2.0, 9.0])).tolist() == [False, True, True, True]


def test_a_test_for_unequal_noise_is_told(data):
    test = dataclasses.replace(diagnosis().test, p_value_robust=np.array(0.2), reject=False)
    found = diagnosis(verdict=Verdict.NOT_CERTIFIED, test=test)
    told = " ".join(reasons.reasons(summarize(found, data, config=CONFIG, version="1")))
    assert "(with unequal noise 0.2) >= alpha = 0.05" in told


def test_merged_cells_are_left_out(data):
    merged = dataclasses.replace(
        diagnosis().cells,
        upper=np.array([-2.0, 0.0, 1.0, 2.0]),
        lower=np.array([-2.0, -2.0, 0.0, 1.0]),
        count=np.array([0, 19, 10, 10]),
    )
    summary = summarize(diagnosis(cells=merged), data, config=CONFIG, version="1")
    assert [cell.count for cell in summary.cells] == [19, 10, 10]


def test_identifiability_names_terms_and_reasons():
    rng = np.random.default_rng(0)
    u, v = (rng.random(50) < 0.5).astype(float), rng.normal(size=50)
    columns = {
        "u": u,
        "u^2": u**2,
        "c": np.full(50, 3.0),
        "v": v,
        "2*v": 2 * v,
        "u + v": u + v,
        "z": np.zeros(50),
        "w": 1e-200 * v**2,
    }
    found = identifiability(np.column_stack(list(columns.values())), list(columns), v[:, None])
    reasons = {(list(columns)[f.term], f.kind): f.reason for f in found}
    place = " on the rows in use"
    assert reasons == {
        ("u^2", "twin"): "u^2 equals u" + place,
        ("c", "constant"): "c is constant (3)" + place,
        ("v", "physics"): "v lies in the span of the physics" + place,
        ("2*v", "twin"): "2*v is 2 times v" + place,
        ("2*v", "physics"): "2*v lies in the span of the physics" + place,
        ("u + v", "combination"): "u + v is a combination of u and v" + place,
        ("z", "zero"): "z is zero" + place,
    }


def test_identifiability_keeps_distinct_terms_with_a_large_offset():
    t = 1e4 + np.arange(100.0)
    features = np.column_stack([t, t**2, np.ones(100)])
    found = identifiability(features, ["t", "t^2", "1"], np.ones((100, 1)))
    assert [(f.term, f.kind) for f in found] == [(2, "constant"), (2, "physics")]


def test_identifiability_inside_a_region():
    x = np.linspace(-1, 1, 20)
    features = np.column_stack([np.maximum(x, 0), x])
    outside = identifiability(features, ["r", "x"], np.ones((20, 1)), x < 0, place="there")
    assert [f.reason for f in outside] == ["r is zero there"]
    inside = identifiability(features, ["r", "x"], np.ones((20, 1)), x > 0, place="there")
    assert [f.reason for f in inside] == ["x equals r there"]
    assert identifiability(features, ["r", "x"], np.ones((20, 1)), x > 5) == []


@pytest.mark.parametrize(
    "value, error, expected",
    [
        (-1.377768, 0.005415, ("-1.3778", "0.0054")),
        (2.0, NAN, ("2", "undefined")),
        (NAN, NAN, ("undefined", "undefined")),
        (123456.0, 250.0, ("123456", "2.5e+02")),
        (1e-12, 1e-14, ("1e-12", "1e-14")),
        (5.0, 0.0, ("5", "0")),
    ],
)
def test_digits_follow_the_error(value, error, expected):
    assert numbers.with_error(value, error) == expected


def test_files_are_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "out.json"
    files.write_text(target, "first")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(files.OutputError, match="cannot be written: full"):
        files.write_text(target, "second")
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_links_are_followed_and_devices_written(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    files.write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    files.write_text(os.devnull, "nothing")
    assert not os.path.isfile(os.devnull)


def test_targets_are_checked_before_any_work(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("x\n1\n")
    (tmp_path / "link.csv").symlink_to(source)
    os.link(source, tmp_path / "hard.csv")
    for name in ("t.csv", "link.csv", "hard.csv"):
        with pytest.raises(files.OutputError, match="would overwrite an input"):
            files.check_target(tmp_path / name, [source])
    with pytest.raises(files.OutputError, match="is a folder"):
        files.check_target(tmp_path, [source])
    with pytest.raises(files.OutputError, match="does not exist"):
        files.check_target(tmp_path / "none" / "x.json", [source])
    files.check_target(tmp_path / "x.json", [source])
