"""manage.py login USER."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandParser
from django.test import Client


class Command(BaseCommand):
    """Sessions for tests."""

    help = "Log a user in; print the cookie of the session."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the name of the user."""
        parser.add_argument("user")

    def handle(self, *_: Any, **options: Any) -> None:
        """Log in."""
        client = Client()
        client.force_login(User.objects.get(username=options["user"]))
        name = settings.SESSION_COOKIE_NAME
        self.stdout.write(f"{name}={client.cookies[name].value}")
