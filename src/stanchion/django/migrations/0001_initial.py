"""The tables of the stores in databases of Django, and the permissions on jobs."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

from stanchion.django.schema import SetUpStores


class Migration(migrations.Migration):
    initial = True
    atomic = False  # a store is set up over connections of its own
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[object]] = [
        migrations.CreateModel(
            name="Job",
            fields=[("id", models.UUIDField(primary_key=True, serialize=False))],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "permissions": (("operate_job", "Can retry, cancel and replay jobs"),),
                "default_permissions": ("view",),
                "managed": False,
            },
        ),
        SetUpStores(),
    ]
