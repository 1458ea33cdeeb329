"""What Django's admin, permissions and content types know of jobs. No table belongs to it: stores have their own."""

from __future__ import annotations

from django.db import models


class Job(models.Model):
    """A job, for the admin and for permissions; read jobs by the app of a backend, `app_of().find()`."""

    id = models.UUIDField(primary_key=True)

    class Meta:
        managed = False
        verbose_name = "job"
        verbose_name_plural = "jobs"
        default_permissions = ("view",)
        permissions = (("operate_job", "Can retry, cancel and replay jobs"),)
