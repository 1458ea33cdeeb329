"""The security headers of each answer."""

from __future__ import annotations

from typing import Final

SECURITY: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def policy(nonce: str) -> str:
    """Return the Content-Security-Policy of a page.

    No inline script, style or handler runs, nothing is loaded from elsewhere, and no page may frame this one. Only
    htmx may turn text into markup, and it obeys only elements with this nonce, which no injected text can know.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'nonce-{nonce}'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types htmx",
        )
    )
