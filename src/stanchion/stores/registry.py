"""Opens the store of a URL."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from stanchion import wings
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store

_STORES = {
    "memory": "stanchion.stores.memory",
    "sqlite": "stanchion.stores.sqlite.store",
    "postgresql": "stanchion.stores.postgres.dialect",
    "postgres": "stanchion.stores.postgres.dialect",
    "mysql": "stanchion.stores.mariadb.dialect",
    "mariadb": "stanchion.stores.mariadb.dialect",
    **wings.TABLE["stores"],
}
"""The module of each URL scheme, with `open_store(url)` and `CAPABILITIES`."""

_SHARDS = "shards"
"""The scheme of several stores as one."""


def open_store(url: str, database: str | None = None) -> Store:
    """Return the store of a URL, without connecting. InvalidInput for a URL that no store understands.

    `database`: for a URL of managers, the URL of their database, for calls in the caller's transaction.
    """
    if database is not None:
        return _through_managers(url, database)
    scheme = url.partition("://")[0].partition("+")[0]
    if scheme == _SHARDS and "://" in url:
        from stanchion.stores import shards

        return shards.open_store(url, open_store)
    if ":" not in url and "@" not in url:
        raise InvalidInput(f"{url!r} is not a URL; for a SQLite file give sqlite:///{url or 'jobs.db'}")
    module = _STORES.get(scheme)
    if module is None or "://" not in url:
        others = wings.others("stores")
        if scheme not in others or "://" not in url:
            raise InvalidInput(
                f"no store understands the URL {shown_url(url)!r}; it starts with one of "
                f"{', '.join(f'{name}://' for name in sorted((*_STORES, *others, _SHARDS)))}, such as sqlite:///jobs.db"
            )
        module = others[scheme]
    store: Store = import_module(module).open_store(url)
    return store


def rehearsal_store(at: int, changed: Callable[[], None], refusal: str | None) -> Store:
    """Return an empty store in memory that stands for a database in a test, with a clock that only the test moves.

    It follows the caller's transactions. `at`: the time to begin with. `changed`: called after each call that may have
    changed something. `refusal`: see `refusal_of_transactions`.
    """
    from stanchion.stores.memory import FrozenClock, MemoryStore, Rehearsal

    return MemoryStore(FrozenClock(at), rehearsal=Rehearsal(changed, refusal))


def refusal_of_transactions(url: str, database: str | None = None) -> str | None:
    """Return why the store of a URL joins no transaction that a test without it can follow; None if it may join one."""
    scheme = (database or url).partition("://")[0].partition("+")[0]
    if scheme in _FOLLOWED:
        return None
    if scheme == "mongodb":
        return "app.testing() can't see when a session of PyMongo commits: test with app.testing(url='mongodb://...')"
    why = "needs database= to" if scheme.startswith("grpc") else "can't"
    return f"the app's store, {shown_url(url)}, {why} join your transaction; leave tx out"


_FOLLOWED = ("memory", "sqlite", "postgresql", "postgres", "mysql", "mariadb")
"""The schemes of databases whose transactions SQLAlchemy or Django ends, and of stores that tests use."""


def _through_managers(url: str, database: str) -> Store:
    if not url.startswith(("grpc://", "grpcs://")):
        raise InvalidInput(f"database= is for URLs of managers, such as grpc://manager; {shown_url(url)} is a database")
    behind = open_store(database)
    if not behind.capabilities.joins_transactions:
        raise InvalidInput(
            f"database= is for transactions, and {shown_url(database)} has none that a job could join: leave it out"
        )
    store: Store = wings.module("stores", "grpc").open_store(url, behind)
    return store


def store_modules() -> dict[str, list[str]]:
    """Return the modules of all stores, each with its URL schemes."""
    stores = _STORES | wings.others("stores")
    return {module: [name for name, of in stores.items() if of == module] for module in stores.values()}


def sql_tables() -> frozenset[str]:
    """Return the names of the tables that setup makes in a SQL database."""
    from stanchion.stores.sql.engine.schema import metadata  # it imports SQLAlchemy

    return frozenset(metadata.tables)


def absolute_url(url: str, folder: str = "") -> str:
    """Return the URL in a form valid in any folder: paths of SQLite files and maps of shards are made absolute.

    `folder`: the folder that the URL is relative to; by default the current one.
    """
    scheme, with_path, rest = url.partition(":///")
    path, separator, query = rest.partition("?")
    if not with_path or not path or scheme.partition("+")[0] not in ("sqlite", _SHARDS):
        return url
    from pathlib import Path

    return f"{scheme}:///{Path(folder, Path(path).expanduser()).absolute()}{separator}{query}"


def current_folder() -> str:
    """Return the current folder; empty if it was deleted, or if no URL can name it."""
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        return ""
    return "" if "?" in folder else folder  # such a path is impossible in a URL


def shown_url(url: str) -> str:
    """Return the URL for display: without its password."""
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme in wings.TABLE["stores"]:
        shown: str | None = wings.module("stores", scheme).shown_url(url)
        if shown is not None:
            return shown
    from sqlalchemy import make_url  # its import takes longer than the rest of the model
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url.partition("://")[0] + "://..." if "://" in url else "..."
