"""Stanchion in a project of Django: the backend of its tasks, and the app of the backend."""

from stanchion.django.tasks.backend import StanchionBackend, app_of
from stanchion.django.tasks.task import StanchionTask

__all__ = ["StanchionBackend", "StanchionTask", "app_of"]
