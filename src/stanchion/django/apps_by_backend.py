"""The app of each backend as an attribute: `stanchion.django.apps_by_backend:default`, for worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stanchion import Stanchion


def __getattr__(name: str) -> Stanchion:
    """Return the app of a backend, with the tasks of all installed apps; sets up Django first."""
    if name.startswith("__"):
        raise AttributeError(name)
    import django
    from django.apps import apps

    if not apps.ready:
        django.setup()
    from django.utils.module_loading import autodiscover_modules

    from stanchion.django import app_of
    from stanchion.django.tasks import known
    from stanchion.django.tasks.running import work_for

    app = app_of(name)
    autodiscover_modules("tasks")
    for path in known.names():
        if (task := known.found(path)) is not None and task.backend == name:
            work_for(app, name, path)
    return app
