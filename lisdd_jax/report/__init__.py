"""A diagnosis in words: on the terminal, as a page, and for programs."""

from lisdd_jax.report.assembly import summarize
from lisdd_jax.report.identifiability import Finding, identifiability
from lisdd_jax.report.json_report import to_dict, to_json
from lisdd_jax.report.summary import Summary

__all__ = ["Finding", "Summary", "identifiability", "summarize", "to_dict", "to_json"]
