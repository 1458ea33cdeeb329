"""Redaction: values that people are not to see, by the names of their keys. One rule for all that is shown.

Pages, the API, the command line, reports, alerts, logs and traces hide the same; programs can do so elsewhere.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

from stanchion.core.text.hiding import DEEPEST, MASK, Hidden

PATTERN: Final = (
    r"passw|passphrase|pwd|secret|token|authori[sz]|credential|cookie|session|api.?key|private.?key|"
    r"(?<!dis)card(?!inal)|cvv|cvc|iban|(?<![a-z])ssn(?![a-z])"
)
"""Keys whose values are hidden, anywhere in a payload, a result, headers or an error; in any case."""

_KEYS: Final = re.compile(PATTERN, re.IGNORECASE)
# A match may begin within a name. Checking its first letter first skips most characters of a large text.
_TEXTS: Final = re.compile(
    rf"""(?P<key>(?=[pstaci])(?:{PATTERN})[\w.-]{{0,40}}["']?\s{{0,3}}[:=]\s{{0,3}})"""
    r"""(?:(?:bearer|basic)\s+\S+|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&)}\]]+)""",
    re.IGNORECASE,
)
_PASSWORDS: Final = re.compile(r"(://[^:/@\s]{0,200}):[^@\s]{1,200}@")


class Texts(Protocol):
    """What hides values in texts."""

    def text(self, text: str) -> str:
        """Return a text with dots in place of hidden values."""


class Redaction:
    """Hides values by the names of their keys. `mark`: stands for a hidden value of JSON."""

    def __init__(self, mark: object = MASK) -> None:
        self._mark = mark

    def value(self, value: object, depth: int = 0) -> object:
        """Return a decoded value with the mark in place of hidden and too deeply nested parts."""
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        if depth > DEEPEST:
            return self._mark
        if isinstance(value, list):
            return [self.value(one, depth + 1) for one in value]
        return {key: self._mark if _hides(key, one) else self.value(one, depth + 1) for key, one in value.items()}

    def text(self, text: str) -> str:
        """Return a text, such as an error, with dots in place of hidden values: `password=•••`."""
        return _TEXTS.sub(rf"\g<key>{MASK}", _PASSWORDS.sub(rf"\1:{MASK}@", text))


class JobRedaction:
    """Hidden parts of one job: by the names of keys, and by its task."""

    def __init__(self, hidden: Hidden | None, payload: object, mark: object = MASK) -> None:
        self._redaction, self._hidden, self._mark = Redaction(mark), hidden, mark
        self._masked = None if hidden is None else hidden.masking(payload)

    def call(self, payload: object) -> object:
        """Return the payload of the job with the mark in place of hidden values."""
        return self._redaction.value(payload if self._hidden is None else self._hidden.in_call(payload, self._mark))

    def value(self, value: object) -> Any:
        """Return another value of it, the same way."""
        return self._redaction.value(value if self._hidden is None else self._hidden.in_value(value, self._mark))

    def text(self, text: str) -> str:
        """Return a text, such as an error of it, with dots in place of hidden values."""
        return self._redaction.text(text if self._masked is None else self._masked(text))


REDACTION: Final = Redaction()


def redacted(value: object) -> Any:
    """Return a text, or a value of dicts and lists, without the values that Stanchion's pages hide.

    Hidden are the values of keys such as `password`, `token` and `card`, and passwords in URLs, also within texts:
    `password=•••`. For what you log, print, or send to an error tracker.
    """
    return REDACTION.value(value)


def named_secret(name: str) -> bool:
    """Return whether values of this name are hidden."""
    return bool(_KEYS.search(name))


def _hides(key: object, value: object) -> bool:
    return value is not None and value != "" and named_secret(str(key))
