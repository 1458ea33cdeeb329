"""manage.py stanchion_worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.utils.autoreload import get_child_arguments

from stanchion.core.text.durations import duration
from stanchion.django.command_line import CliCommand, app_path
from stanchion.service.logs import log_to_stderr
from stanchion.service.reloading import Reloader


class Command(CliCommand):
    """A worker for the tasks of the project."""

    help = "Run the jobs of a backend until SIGTERM or Ctrl-C. The modules `tasks` of all installed apps are imported."
    cli_name = "worker"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of `stanchion worker`, and those about restarts."""
        super().add_arguments(parser)
        reload = parser.add_mutually_exclusive_group()
        reload.add_argument(
            "--reload",
            action="store_true",
            default=None,
            help="Restart when a Python file of this folder changes. Default with DEBUG, except with --until-empty.",
        )
        reload.add_argument("--noreload", action="store_false", dest="reload", help="Never restart.")

    def handle(self, *_: object, **options: Any) -> None:
        """Run the worker, or the process that restarts it."""
        reload = options["reload"]
        if reload is None:
            reload = settings.DEBUG and not options["until_empty"]
        if reload:
            log_to_stderr(options["log_level"] or "info", options["log_format"] or "text")
            again = [one for one in get_child_arguments() if one != "--reload"]
            grace = duration(options["grace"] or "30s", "--grace")
            self.finish(Reloader([*again, "--noreload"], Path.cwd(), grace).run())
            return
        self.finish(self.call(options, app_path(options["backend"])))
