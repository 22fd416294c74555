"""Docstrings of the package as the site's parser names their sections."""

import re
from typing import Any

import griffe


class Sections(griffe.Extension):
    """Names an example as the Google style does, so that it is shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section of one object."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
