"""Redaction: values that a page must not show, by the names of their keys."""

from __future__ import annotations

import re
from typing import Any, Final

PATTERN: Final = (
    r"pass(word|wd|phrase)?$|passw|secret|token|authori[sz]ation|credential|cookie|session|api.?key|private.?key|"
    r"card|cvv|cvc|iban|ssn"
)
"""Keys whose values are hidden, wherever they stand in a payload, a result, headers or an error; in any case."""


class Hidden:
    """Stands for a value that is not shown."""

    def __repr__(self) -> str:
        return "hidden"


HIDDEN: Final = Hidden()


class Redaction:
    """Hides values by a pattern of their keys."""

    def __init__(self, pattern: str = PATTERN) -> None:
        self._keys = re.compile(pattern, re.IGNORECASE)
        self._texts = re.compile(
            r"""(?P<quote>["']?)(?P<key>[\w.-]{1,64})(?P=quote)(?P<sep>\s{0,3}[:=]\s{0,3})"""
            r"""(?P<value>(?:bearer|basic)\s+\S+|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&)}\]]+)""",
            re.IGNORECASE,
        )
        self._passwords = re.compile(r"(://[^:/@\s]{0,200}):[^@\s]{1,200}@")

    def value(self, value: Any) -> Any:
        """Return a decoded value in which hidden ones are HIDDEN."""
        if isinstance(value, dict):
            return {key: HIDDEN if self._hides(key, one) else self.value(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.value(one) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Return a text, such as an error, in which hidden values are dots: `password=•••`."""
        without = self._passwords.sub(r"\1:•••@", text)
        return self._texts.sub(self._masked, without)

    def _hides(self, key: Any, value: Any) -> bool:
        return value is not None and value != "" and bool(self._keys.search(str(key)))

    def _masked(self, match: re.Match[str]) -> str:
        if not self._keys.search(match["key"]):
            return match[0]
        return f"{match['quote']}{match['key']}{match['quote']}{match['sep']}•••"
