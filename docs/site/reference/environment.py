"""Reference of environment variables, from stanchion.core.environment."""

from __future__ import annotations

import griffe
from docs.site.reference.tables import code, prose, table
from docs.site.staging import ROOT


def page() -> str:
    """Return the page."""
    file = ROOT / "src" / "stanchion" / "core" / "environment.py"
    module = griffe.visit("environment", file, file.read_text("utf-8"))
    rows = [
        (code(str(one.value).strip("\"'")), prose(one.docstring.value))
        for one in module.attributes.values()
        if one.docstring and one.name.isupper()
    ]
    return f"# Environment variables\n\n{table(['variable', 'meaning'], sorted(rows))}\n"
