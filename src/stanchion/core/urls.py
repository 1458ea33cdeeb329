"""URLs that name several hosts."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def split_with_hosts(url: str) -> SplitResult:
    """Return the parts of a URL with any number of hosts, separated by commas, which the caller checks.

    `urlsplit` of current releases of Python refuses the brackets of an IPv6 address after the first host.
    """
    scheme, mark, rest = url.partition("://")
    end = min((rest.index(one) for one in "/?#" if one in rest), default=len(rest))
    return urlsplit(f"{scheme}{mark}{rest[end:]}")._replace(netloc=rest[:end])
