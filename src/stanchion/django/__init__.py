"""Stanchion in a project of Django: the backend of its tasks, and the app of the backend."""

from stanchion.django.backend import StanchionBackend, app_of
from stanchion.django.task import StanchionTask

__all__ = ["StanchionBackend", "StanchionTask", "app_of"]
