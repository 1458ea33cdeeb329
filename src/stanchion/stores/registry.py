"""From a URL to a store."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store

_STORES = {
    "memory": "stanchion.stores.memory",
    "sqlite": "stanchion.stores.sqlite.dialect",
    "postgresql": "stanchion.stores.postgres.dialect",
    "postgres": "stanchion.stores.postgres.dialect",
    "mysql": "stanchion.stores.mariadb.dialect",
    "mariadb": "stanchion.stores.mariadb.dialect",
    "mongodb": "stanchion.stores.mongo",
    "redis": "stanchion.stores.redis",
    "rediss": "stanchion.stores.redis",
    "valkey": "stanchion.stores.redis",
    "valkeys": "stanchion.stores.redis",
}
"""The module of each URL scheme; it has `open_store(url)` and `CAPABILITIES`."""


def open_store(url: str) -> Store:
    """Return the store of a URL; nothing connects yet. InvalidInput for a URL that no store understands."""
    scheme = url.partition("://")[0].partition("+")[0]
    module = _STORES.get(scheme)
    if module is None or "://" not in url:
        raise InvalidInput(
            f"no store understands the URL {shown_url(url)!r}; it starts with one of "
            f"{', '.join(f'{name}://' for name in sorted(_STORES))}, such as sqlite:///jobs.db"
        )
    store: Store = import_module(module).open_store(url)
    return store


def store_modules() -> dict[str, list[str]]:
    """Return the modules of all stores, each with the URL schemes that it understands."""
    return {module: [name for name, of in _STORES.items() if of == module] for module in _STORES.values()}


def absolute_url(url: str) -> str:
    """Return the URL as it is good in any folder: that of a SQLite file may name it from the present one."""
    if not url.startswith("sqlite:///"):
        return url
    path, mark, query = url.removeprefix("sqlite:///").partition("?")
    return f"sqlite:///{Path(path).expanduser().absolute()}{mark}{query}"


def shown_url(url: str) -> str:
    """Return the URL as it may be shown: without its password."""
    if url.startswith("mongodb"):
        from stanchion.stores.mongo.client.address import hidden

        return hidden(url)
    if "+sentinel" in url.partition("://")[0]:
        from stanchion.stores.redis.client import address

        return address.hidden(url)
    from sqlalchemy.engine import make_url  # takes longer to import than all the rest of the model
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url.partition("://")[0] + "://..." if "://" in url else "..."
