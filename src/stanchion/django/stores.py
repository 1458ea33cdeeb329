"""The backends of a project that are Stanchion's."""

from __future__ import annotations

from django.conf import settings

from stanchion import Stanchion
from stanchion.django.tasks.backend import StanchionBackend
from stanchion.django.tasks.compat import task_backends
from stanchion.django.tasks.options import alias_of, joins


def backends() -> dict[str, StanchionBackend]:
    """Return the backends of settings.TASKS that are Stanchion's, by their names."""
    found = {name: task_backends[name] for name in getattr(settings, "TASKS", {})}
    return {name: backend for name, backend in found.items() if isinstance(backend, StanchionBackend)}


def apps_by_backend() -> dict[str, Stanchion]:
    """Return their apps."""
    return {name: backend.app for name, backend in backends().items()}


def backends_on(alias: str) -> dict[str, StanchionBackend]:
    """Return the backends whose store is in this database."""
    return {
        name: backend
        for name, backend in backends().items()
        if joins(backend.options) and alias_of(backend.options) == alias
    }
