"""Tables of the site that follow from the code, put in at the build."""

from typing import Any

from lisdd_jax import Status, describe


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page by what they stand for."""
    return markdown.replace("<!-- table of statuses -->", status_table())


def status_table() -> str:
    """Every status with its cause and its remedy."""
    lines = ["| code | status | what happened | what to do |", "|---|---|---|---|"]
    for status in Status:
        name, _, words = describe(status).partition(": ")
        cause, _, remedy = words.partition("; ")
        lines.append(f"| {int(status)} | `{name}` | {cause} | {remedy} |")
    return "\n".join(lines)
