"""Recorded answers of other programs, see ``data/make_references.py``."""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def read() -> dict[str, Any]:
    path = Path(__file__).with_name("data") / "references.json"
    return json.loads(path.read_text())
