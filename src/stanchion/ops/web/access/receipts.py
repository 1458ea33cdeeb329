"""The receipt of an act: carried to the next page by a cookie, signed with the session's CSRF token, and shown once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Final, NamedTuple

from stanchion.ops.web.access.guard import local_path

RECEIPT_COOKIE: Final = "stanchion-receipt"

LASTS: Final = 60
"""Seconds within which the next page must ask for it."""

_TEXT_MAX: Final = 400
_LINK_MAX: Final = 1200
"""Characters; a browser takes cookies of 4 kB."""


class Receipt(NamedTuple):
    """What an act has done, as a sentence, and where to see it: a path of this site, with the text of the link."""

    text: str
    link: str = ""
    link_text: str = ""


def sealed(receipt: Receipt, csrf: str) -> str:
    """Return a receipt as the value of a cookie."""
    text = receipt.text if len(receipt.text) <= _TEXT_MAX else f"{receipt.text[: _TEXT_MAX - 1]}…"
    link = receipt.link if len(receipt.link) <= _LINK_MAX else ""
    body = base64.urlsafe_b64encode(json.dumps([text, link, receipt.link_text], ensure_ascii=False).encode())
    return f"{body.decode()}.{_mac(body, csrf)}"


def opened(cookie: str, csrf: str) -> Receipt | None:
    """Return the receipt of a cookie; None if it is not of this session."""
    body, _, mac = cookie.partition(".")
    if not hmac.compare_digest(_mac(body.encode(), csrf).encode(), mac.encode()):
        return None
    try:
        receipt = Receipt(*json.loads(base64.urlsafe_b64decode(body)))
    except (ValueError, TypeError, binascii.Error):
        return None
    return receipt if receipt.link in ("", local_path(receipt.link)) else None


def _mac(body: bytes, csrf: str) -> str:
    return hmac.new(csrf.encode(), b"receipt " + body, hashlib.sha256).hexdigest()
