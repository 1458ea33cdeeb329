"""manage.py stanchion_web."""

from __future__ import annotations

from typing import Any

from stanchion.django.command_line import CliCommand, app_path


class Command(CliCommand):
    """The page, as a server of its own."""

    help = (
        "Serve the page of a backend's store until SIGTERM or Ctrl-C. Its users have tokens, as with `stanchion web`."
    )
    cli_name = "web"

    def handle(self, *_: object, **options: Any) -> None:
        """Serve the page."""
        self.finish(self.call(options, "--app", app_path(options["backend"])))
