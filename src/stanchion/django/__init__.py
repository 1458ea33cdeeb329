"""Stanchion in a project of Django: the backend of its tasks, and the app behind it."""

from stanchion.django.backend import StanchionBackend, app_of

__all__ = ["StanchionBackend", "app_of"]
