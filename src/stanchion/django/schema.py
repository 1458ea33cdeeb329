"""The tables of stores in databases of Django: made and upgraded by `migrate`."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from stanchion.django.databases.database import in_memory
from stanchion.django.stores import backends_on


def set_up(alias: str) -> None:
    """Create or upgrade the tables of the backends whose store is this database. Safe to repeat.

    Not where a router keeps the application out, nor in a database in memory, which can hold no store.
    """
    if in_memory(alias) or not router.allow_migrate(alias, "stanchion"):
        return
    for backend in backends_on(alias).values():
        backend.app.setup()


def after_migrate(using: str, plan: object = None, **_: object) -> None:
    """Upgrade the tables after each `migrate`: a new release of Stanchion needs no migration of Django.

    A backend that moves to another database gets its tables there, too. `plan`: missing after `flush`, which many tests
    end with, and which leaves the tables alone.
    """
    if plan is not None:
        set_up(using)


class SetUpStores(Operation):
    """Creates the tables of the stores, so that later migrations may enqueue tasks.

    Backwards, the tables stay, as they may have jobs.
    """

    reduces_to_sql = False
    reversible = True

    def state_forwards(self, *_: object) -> None:
        """Change no model."""

    def database_forwards(self, _label: str, schema_editor: Any, *_: object) -> None:
        """Set up the stores of the database that is migrated."""
        set_up(schema_editor.connection.alias)

    def database_backwards(self, *_: object) -> None:
        """Leave the tables as they are."""

    def describe(self) -> str:
        """Return the line of `migrate --plan`."""
        return "Create or upgrade the tables of Stanchion"
