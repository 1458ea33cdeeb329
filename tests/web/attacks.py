"""Texts that do harm where a page does not escape them, and one that it must hide."""

from __future__ import annotations

ATTACKS = (
    "<script>document.title='pwned'</script>",
    '"><img src=x onerror="document.title=\'pwned\'">',
    "'-alert(1)-'",
    "</pre></textarea><svg onload=document.title='pwned'>",
    "javascript:alert(1)",
    "{{ 7*7 }}{% raw %}",
    "\u202egnp.exe\u2066",
    "&lt;b&gt;",
    '" hx-get="/logout" hx-trigger="load" x="',
    "<a href=//evil.example>",
)
"""Texts that do harm where a page does not escape them."""

SECRET = "hunter2-4111111111111111"


def attack(number: int) -> str:
    return ATTACKS[number % len(ATTACKS)]
