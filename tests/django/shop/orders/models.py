"""The tables of the shop."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """An order, and the result of its task."""

    article = models.CharField(max_length=100)
    paid = models.BooleanField(default=False)
    attempts = models.IntegerField(default=0)
    result_id = models.CharField(max_length=64, blank=True)
