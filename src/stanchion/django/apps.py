"""The application of Django."""

from __future__ import annotations

from django.apps import AppConfig


class StanchionConfig(AppConfig):
    """Name it in INSTALLED_APPS as "stanchion.django"."""

    name = "stanchion.django"
    label = "stanchion"
    verbose_name = "Stanchion"
