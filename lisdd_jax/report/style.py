"""Colours and settings that all figures share."""

from typing import Any

INK, SOFT, FLAG, TERM, WARN = "#1f2933", "#8793a1", "#b42318", "#0b6e99", "#b7791f"

PALETTE = {
    "ink": (INK, "#e4e7eb"),
    "soft": (SOFT, "#7b8794"),
    "flag": (FLAG, "#ff8f82"),
    "term": (TERM, "#5cc1ee"),
    "warn": (WARN, "#e5b45a"),
}
"""Colours of a figure by name: on a light page, as drawn, and on a dark one."""

STYLE: Any = {
    "svg.hashsalt": "lisdd-jax",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
