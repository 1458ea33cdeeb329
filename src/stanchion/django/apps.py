"""The application of Django."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate


class StanchionConfig(AppConfig):
    """Name it in INSTALLED_APPS as "stanchion.django"."""

    name = "stanchion.django"
    label = "stanchion"
    verbose_name = "Stanchion"

    def ready(self) -> None:
        """Connect `migrate` and `check` to the stores' tables, and let tests end without connections."""
        from stanchion.django.checks import check_project, check_tables
        from stanchion.django.databases.testing import watch
        from stanchion.django.schema import after_migrate

        post_migrate.connect(after_migrate, sender=self)
        connection_created.connect(watch)
        register(check_project)
        register(check_tables, Tags.database)
