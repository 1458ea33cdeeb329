"""The Lua scripts: each changing verb is one script, and thus atomic."""

from __future__ import annotations

import hashlib
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
    """Return a script of the folder `lua`, with its shared parts in front."""
    shared = ("prelude", "bucket") if name in _AT_A_RATE else ("prelude",)
    text = "\n".join(script_text(part) for part in (*shared, name))
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def script_text(name: str) -> str:
    """Return a file of the folder `lua`."""
    return (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
