"""Quoting for each format, so that every name reaches the program unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)


def yaml(text: str) -> str:
    """Return a YAML scalar."""
    return json.dumps(text, ensure_ascii=False)


def kubernetes(args: Iterable[str]) -> str:
    """Return a YAML list of arguments. Kubernetes replaces only `$(POD)`."""
    escaped = (re.sub(r"\$(?!\(POD\))", "$$", arg) for arg in args)
    return _listed(escaped)


def compose(args: Iterable[str]) -> str:
    """Return a YAML list of arguments without variables."""
    return _listed(arg.replace("$", "$$") for arg in args)


def systemd(args: Iterable[str]) -> str:
    """Return a command line without specifiers and variables."""
    return " ".join(map(_word, args))


def _listed(args: Iterable[str]) -> str:
    return f"[{', '.join(map(yaml, args))}]"


def _word(arg: str) -> str:
    if _PLAIN.fullmatch(arg):
        return arg
    escaped = arg.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
