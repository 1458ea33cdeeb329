"""manage.py stanchion."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from stanchion.django.command_line import CliCommand, app_path, run


class Command(BaseCommand):
    """Any command of the command line."""

    help = "Run a command of `stanchion` on a backend's store: manage.py stanchion jobs --state dead"

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command with arguments as they are, without those that belong to `manage.py`."""
        own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        own.add_argument("--backend", default="default")
        own.add_argument("--settings")
        own.add_argument("--pythonpath")
        given, rest = own.parse_known_args(argv[2:])
        try:
            self._run(given.backend, rest)
        except CommandError as error:
            self.stderr.write(f"CommandError: {error}")
            sys.exit(error.returncode)

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the arguments of `call_command`."""
        parser.add_argument("--backend", default="default", help="The backend in TASKS whose store is used.")
        parser.add_argument("arguments", nargs=argparse.REMAINDER)

    def handle(self, *_: object, **options: Any) -> None:
        """Run the command for `call_command`."""
        self._run(options["backend"], options["arguments"])

    @staticmethod
    def _run(backend: str, arguments: list[str]) -> None:
        CliCommand.finish(run(["--app", app_path(backend), *arguments]))
