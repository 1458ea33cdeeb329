"""Reference of the exceptions."""

from __future__ import annotations

from typing import Any

from docs.site.reference.api import described, exceptions
from docs.site.reference.tables import table


def page() -> str:
    """Return the page."""
    found = exceptions()
    rows = [
        (
            f"[{one.name}](#{one.name.lower()})",
            ", ".join(f"`{base}`" for base in one.bases),
            _first(one),
        )
        for one in found
    ]
    parts = [
        "# Errors",
        "Every error is a `StanchionError`. Its message says what happened, the cause and the next step.",
        "The errors of streams, archives and typed reads on Spark are in [stanchion.spark](module-spark.md).",
        table(["error", "bases", "meaning"], rows),
        *(part for one in found for part in described(one)),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _first(error: Any) -> str:
    return str(error.docstring.value).split("\n\n")[0].replace("\n", " ")
