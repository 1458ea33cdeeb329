"""The databases of Django's settings as stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connections

from stanchion.errors import InvalidInput

_SCHEMES = {"postgresql": "postgresql+psycopg", "mysql": "mysql", "sqlite": "sqlite"}
"""The scheme of URLs, by the vendor of a connection."""

_CLIENT = {
    "postgresql": (
        *("service", "passfile", "sslmode", "sslrootcert", "sslcert", "sslkey", "options"),
        *("target_session_attrs", "channel_binding", "gssencmode", "hostaddr"),
    ),
    "mysql": ("unix_socket", "ssl_ca", "ssl_cert", "ssl_key", "read_default_file", "read_default_group"),
    "sqlite": (),
}
"""The options of Django's connections that the store's connections take as well, by vendor."""


def url_of(alias: str) -> str:
    """Return the URL of the store in a database of settings.DATABASES, by its present name, such as that of a test.

    Raises InvalidInput if no store is possible in it.
    """
    from sqlalchemy import URL

    connection = connections[alias]
    vendor, settings = connection.vendor, connection.settings_dict
    scheme = _SCHEMES.get(vendor)
    if scheme is None:
        raise InvalidInput(
            f"the database {alias!r} is {vendor}, which holds no store: name another alias, or a store's url in OPTIONS"
        )
    name = str(settings["NAME"] or "")
    if vendor == "sqlite":
        return _file(alias, name)
    host, port = settings.get("HOST") or None, str(settings.get("PORT") or "")
    query = _options(vendor, settings.get("OPTIONS") or {})
    if "," in f"{host}{port}":  # several servers: of a URL, only libpq's options hold them
        query |= {name: value for name, value in (("host", host), ("port", port)) if value}
        host, port = None, ""
    if host and host.startswith("/"):
        query["host" if vendor == "postgresql" else "unix_socket"], host = host, None
    return URL.create(
        scheme,
        username=settings.get("USER") or None,
        password=settings.get("PASSWORD") or None,
        host=host if host or vendor == "postgresql" or "read_default_file" in query else "localhost",
        port=int(port) if port else None,
        database=name or None,
        query=query,
    ).render_as_string(hide_password=False)


def _file(alias: str, name: str) -> str:
    if not name or ":memory:" in name or "mode=memory" in name:
        raise InvalidInput(
            f"the database {alias!r} is in memory, which only one connection sees: give it a file, in tests by "
            f"DATABASES[{alias!r}]['TEST']['NAME'], or test within stanchion.django.app_of().testing()"
        )
    from sqlalchemy import URL

    return URL.create("sqlite", database=name).render_as_string()


def _options(vendor: str, given: Mapping[str, Any]) -> dict[str, str]:
    taken = {name: str(given[name]) for name in _CLIENT[vendor] if given.get(name) is not None}
    if vendor == "mysql" and isinstance(given.get("ssl"), Mapping):
        taken |= {f"ssl_{name}": str(value) for name, value in given["ssl"].items() if name in ("ca", "cert", "key")}
    if vendor == "postgresql" and given.get("assume_role"):  # Django sets it after it has connected
        role = str(given["assume_role"]).replace("\\", "\\\\").replace(" ", "\\ ")
        taken["options"] = f"{taken.get('options', '')} -c role={role}".lstrip()
    return taken


def in_transaction(alias: str) -> bool:
    """Return whether this thread has a transaction of a database open, without a connection to it."""
    connection = connections[alias]
    if connection.in_atomic_block:
        return True
    autocommit = connection.autocommit if connection.connection is not None else connection.settings_dict["AUTOCOMMIT"]
    return not autocommit


def in_memory(alias: str) -> bool:
    """Return whether a database is one of SQLite in memory, as tests have it."""
    connection = connections[alias]
    return bool(connection.vendor == "sqlite" and connection.is_in_memory_db())
