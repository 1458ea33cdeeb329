"""The Lua scripts: each changing verb is one script, and thus atomic.

The files of the folder `lua` hold several each; a script begins after a line with three dashes and its name.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_FOLDER = files("stanchion.stores.redis") / "lua"
_AT_A_RATE = ("claim", "spend")


class Script(NamedTuple):
    """A script and the hash under which the server caches it."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """Return a script, with its shared parts in front."""
    shared = ("prelude", "bucket") if name in _AT_A_RATE else ("prelude",)
    text = "\n".join(script_texts()[part] for part in (*shared, name))
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def script_texts() -> dict[str, str]:
    """Return all scripts, and the shared parts, by name."""
    texts = [file.read_text(encoding="utf-8") for file in _FOLDER.iterdir() if file.name.endswith(".lua")]
    return {name: text for whole in texts for name, text in _SECTION.findall(whole)}


_SECTION = re.compile(r"^--- (\w+)\n\n(.*?)(?=^--- |\Z)", re.MULTILINE | re.DOTALL)
