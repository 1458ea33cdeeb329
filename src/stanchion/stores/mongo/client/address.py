"""Parses the URL of a MongoDB store, without a connection, the driver or DNS."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from stanchion.errors import InvalidInput

_URL = re.compile(r"(mongodb(?:\+srv)?)://(?:([^/]*)@)?([^/?@]*)(?:/([^?]*))?(?:\?(.*))?", re.DOTALL)
_EXAMPLE = "mongodb://user:password@host1,host2/database"


class Address(NamedTuple):
    """The address of the database; `shown` is the URL without its password and options."""

    url: str
    shown: str
    database: str
    password: str | None

    def without_password(self, text: str) -> str:
        """Return the text with the password hidden."""
        for secret in {self.password, unquote(self.password)} if self.password else ():
            text = text.replace(secret, "***")
        return text


def address_of(url: str) -> Address:
    """Read `mongodb://user:password@host1,host2/database?options`, or `mongodb+srv://...`."""
    found = _URL.fullmatch(url)
    if found is None:
        raise InvalidInput(f"write the URL as {_EXAMPLE}, or as mongodb+srv://...")
    scheme, credentials, hosts, database, _options = found.groups()
    user, _, password = (credentials or "").partition(":")
    at = "" if credentials is None else f"{user}:***@" if password else f"{user}@"
    shown = f"{scheme}://{at}{hosts}/{database or ''}"
    if not hosts:
        raise InvalidInput(f"the URL names no host; write {_EXAMPLE}")
    if scheme == "mongodb+srv" and set(hosts) & set(",:"):
        raise InvalidInput(f"the URL {shown} must name one host, without a port; or begin it with mongodb://")
    if not database:
        raise InvalidInput(f"the URL {shown} names no database; write {_EXAMPLE}")
    return Address(url, shown, unquote(database), password or None)
