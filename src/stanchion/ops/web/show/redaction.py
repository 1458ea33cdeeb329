"""Redaction: values that a page must not show, by the names of their keys."""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

from stanchion.core import hiding

PATTERN: Final = (
    r"passw|passphrase|pwd|secret|token|authori[sz]|credential|cookie|session|api.?key|private.?key|"
    r"(?<!dis)card(?!inal)|cvv|cvc|iban|(?<![a-z])ssn(?![a-z])"
)
"""Keys whose values are hidden, wherever they stand in a payload, a result, headers or an error; in any case."""


class Hidden:
    """Stands for a value that is not shown."""

    def __repr__(self) -> str:
        return "hidden"


HIDDEN: Final = Hidden()


class JobRedaction:
    """What is hidden of one job: by the names of keys, and by its task."""

    def __init__(self, redaction: Redaction, hidden: hiding.Hidden | None, payload: Any) -> None:
        self._redaction, self._hidden = redaction, hidden
        self._mask = None if hidden is None else hidden.masking(payload)

    def call(self, payload: Any) -> Any:
        """Return the payload of the job in which hidden values are HIDDEN."""
        return self._redaction.value(payload if self._hidden is None else self._hidden.in_call(payload, HIDDEN))

    def value(self, value: Any) -> Any:
        """Return another value of it, the same way."""
        return self._redaction.value(value if self._hidden is None else self._hidden.in_value(value, HIDDEN))

    def text(self, text: str) -> str:
        """Return a text, such as an error of it, in which hidden values are dots."""
        return self._redaction.text(text if self._mask is None else self._mask(text))


class Texts(Protocol):
    """What hides values in texts."""

    def text(self, text: str) -> str:
        """Return a text in which hidden values are dots."""


class Redaction:
    """Hides values by a pattern of their keys."""

    def __init__(self, pattern: str = PATTERN) -> None:
        self._keys = re.compile(pattern, re.IGNORECASE)
        self._texts = re.compile(
            rf"""(?P<key>["']?[\w.-]{{0,40}}?(?:{pattern})[\w.-]{{0,40}}["']?\s{{0,3}}[:=]\s{{0,3}})"""
            r"""(?:(?:bearer|basic)\s+\S+|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&)}\]]+)""",
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
        return self._texts.sub(r"\g<key>•••", without)

    def _hides(self, key: Any, value: Any) -> bool:
        return value is not None and value != "" and bool(self._keys.search(str(key)))
