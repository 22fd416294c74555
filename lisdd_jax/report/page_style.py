"""The style sheet of the page: light and dark, on a phone and on paper."""

from lisdd_jax.report.style import PALETTE

_PAGE = {
    "page": ("#ffffff", "#14181d"),
    "text": ("#1f2933", "#e4e7eb"),
    "quiet": ("#52606d", "#a3aebb"),
    "line": ("#d9e2ec", "#323c47"),
    "tint": ("#fdf0ef", "#3a2322"),
}
_MARKS = {
    "clean": ("#1e7e4a", "#5fd394"),
    "discrepancy": ("#b42318", "#ff8f82"),
    "open": ("#8a5a00", "#e5b45a"),
}
"""Of the headline, by verdict; ``open`` for all that decide nothing."""

_RULES = """
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 50rem; padding: 2rem 1.25rem 4rem; background: var(--page);
  color: var(--text); font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  overflow-wrap: break-word; }
header { border-left: .4rem solid var(--mark); padding-left: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .2rem 0; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .25rem; }
.label { color: var(--mark); font-weight: 700; letter-spacing: .06em; text-transform: uppercase; }
.meta, figcaption, footer { color: var(--quiet); font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0; }
caption { color: var(--quiet); font-size: .9rem; padding: .25rem 0; text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .9rem .25rem 0; text-align: left; }
td.number, th.number { text-align: right; white-space: nowrap; }
tr.flagged td, tr.flagged th { background: var(--tint); }
figure { margin: .75rem 0; }
svg { display: block; height: auto; width: 100%; }
svg.narrow { display: none; max-width: 27rem; }
.formula { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 1.05rem;
  overflow-wrap: anywhere; }
details { margin-top: 2rem; }
@media screen and (max-width: 660px) {
  body { padding: 1.25rem 1rem 3rem; }
  svg.wide { display: none; }
  svg.narrow { display: block; }
  table { font-size: .8rem; }
  th, td { padding-right: .3rem; }
  th[scope=row] { min-width: 3.6rem; }
  th.number, td.number:last-child { overflow-wrap: normal; white-space: normal; }
}
@media print {
  body { font-size: 10pt; max-width: none; padding: 0; }
  h1, h2, h3, caption { break-after: avoid; }
  figure, tr, li { break-inside: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  details::details-content { block-size: auto; content-visibility: visible; }
}
"""


def style_sheet(verdict: str) -> str:
    """The rules, with the colours of a verdict.

    Args:
      verdict: lower-case name.
    """
    colors = {**_PAGE, **PALETTE, "mark": _MARKS.get(verdict, _MARKS["open"])}
    light, dark = (
        " ".join(f"--{name}: {pair[k]};" for name, pair in colors.items()) for k in (0, 1)
    )
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}{_RULES}"
    )
