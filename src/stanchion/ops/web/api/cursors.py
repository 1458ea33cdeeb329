"""Cursors: where the next page of a list begins, signed, and good for this list and this filter only.

    base64url( signature (16 bytes) · JSON of the place )

The key is a secret in the store, so that all processes know each other's cursors.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from typing import Any, Final

from stanchion.ops.web.api.problems import Problem, Wrong
from stanchion.stores.protocol import Store

KIND: Final = "web-secret"
NAME: Final = "cursors"
LONGEST: Final = 4096
"""Characters of the longest cursor."""

_SIGNED = 16


class Cursors:
    """Writes and reads the cursors of one store, which is asked for at the first use."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._key: bytes | None = None

    def write(self, scope: str, place: object) -> str:
        """Return the cursor of a place. `scope`: the list and its filter."""
        content = json.dumps(place, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._signature(scope, content) + content).decode().rstrip("=")

    def read(self, scope: str, cursor: str) -> Any:
        """Return the place of a cursor. Raises Problem for one of another list or filter, and for a forged one."""
        try:
            whole = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), b"-_", validate=True)
        except (ValueError, binascii.Error):  # also non-ASCII text
            whole = b""
        signature, content = whole[:_SIGNED], whole[_SIGNED:]
        if not hmac.compare_digest(signature, self._signature(scope, content)):
            wrong = Wrong("is not a cursor of this list with this filter", parameter="after")
            raise Problem("foreign-cursor", errors=[wrong])
        return json.loads(content)

    def _signature(self, scope: str, content: bytes) -> bytes:
        key = self._key = self._key or self._shared_key()
        text = b"\0".join((b"stanchion cursor", scope.encode("utf-8", "surrogatepass"), content))
        return hmac.new(key, text, hashlib.sha256).digest()[:_SIGNED]

    def _shared_key(self) -> bytes:
        store = self._store()
        while True:
            for value in store.values(KIND, [NAME]):
                return bytes.fromhex(value.text)
            store.compare_and_set(KIND, NAME, secrets.token_hex(32), 0)
