"""Colours and settings that all figures share."""

from typing import Any

INK, SOFT, FLAG, TERM = "#1f2933", "#9aa5b1", "#b42318", "#0b6e99"

STYLE: Any = {
    "svg.hashsalt": "lisdd-jax",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
