"""System checks of a project: applications, and the tables of stores. The backend itself checks its OPTIONS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.core.checks import CheckMessage, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import Error as DatabaseError

from stanchion import Stanchion
from stanchion.django.databases.database import in_memory
from stanchion.django.stores import backends, backends_on
from stanchion.errors import SchemaMismatch, StanchionError
from stanchion.stores.registry import open_store


def check_project(**_: object) -> list[CheckMessage]:
    """Check that a backend is configured for the application to work with."""
    if backends():
        return []
    return [
        Warning(
            "stanchion.django is in INSTALLED_APPS, but no backend in TASKS uses it.",
            hint="Set TASKS = {'default': {'BACKEND': 'stanchion.django.StanchionBackend'}}.",
            id="stanchion.W001",
        )
    ]


def check_tables(databases: Sequence[str] | None = None, **_: object) -> list[CheckMessage]:
    """Check the tables in databases of Django. Warnings only: `migrate`, which mends them, runs this check first."""
    return [found for alias in databases or () for found in _of_database(alias)]


def _of_database(alias: str) -> Iterator[CheckMessage]:
    if in_memory(alias):
        return
    for name, backend in backends_on(alias).items():
        try:
            trouble = _trouble(backend.app)
        except SchemaMismatch as error:
            yield Warning(
                f"TASKS[{name!r}]: {error}",
                hint="A newer release of Stanchion has upgraded the tables. Install that release here, too.",
                id="stanchion.W002",
            )
            continue
        if trouble is None:
            continue
        allowed = router.allow_migrate(alias, "stanchion")
        if allowed and not _migrated(alias):
            continue  # Django reports migrations that are not applied
        command = f"manage.py migrate --database {alias}" if allowed else f"manage.py stanchion setup --backend {name}"
        why = "" if allowed else f" A router keeps the application 'stanchion' out of {alias!r}, so `migrate` does not."
        yield Warning(
            f"TASKS[{name!r}]: the tables in the database {alias!r} are missing or outdated: {trouble}",
            hint=f"Run {command}.{why}",
            id="stanchion.W002",
        )


def _migrated(alias: str) -> bool:
    return ("stanchion", "0001_initial") in MigrationRecorder(connections[alias]).applied_migrations()


def _trouble(app: Stanchion) -> str | None:
    """Return the fault of a store's tables; None without one, or if another check reports the database.

    Raises SchemaMismatch for tables of a newer release.
    """
    try:
        store = open_store(app.url)
    except (StanchionError, ImproperlyConfigured):
        return None
    try:
        steps = store.setup(dry_run=True)
    except SchemaMismatch:
        raise
    except (StanchionError, DatabaseError):
        return None  # Django reports an unreachable database by itself
    finally:
        store.close()
    return f"{len(steps)} statements to run" if steps else None
