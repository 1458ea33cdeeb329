"""The templates: every value is escaped, always."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stanchion.core.text.durations import spelled
from stanchion.ops import words
from stanchion.ops.web.show.foreign import visible

FOLDER: Final = Path(__file__).parents[1] / "templates"


def _finalized(value: object) -> object:
    """Make each text visible before it is escaped; markup that the page itself made stays."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def environment() -> Environment:
    """Return the environment of all templates, which the sites of a process share."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": words.number,
        "duration": spelled,
        "short_id": words.short_id,
        "segment": segment,
        "percent": words.percent,
        "rate": words.rate,
    }
    made.globals |= {"plural": words.plural, "query": query}
    return made


def segment(text: str) -> str:
    """Return a name as a part of a path."""
    return quote(text, safe="")


def query(**values: object) -> str:
    """Return the query of a URL with its question mark; values that are None or empty are left out."""
    given = {name: value for name, value in values.items() if value not in (None, "", [])}
    return f"?{urlencode(given, doseq=True)}" if given else ""
