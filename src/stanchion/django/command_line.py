"""Commands of the command line as commands of `manage.py`: the same options, run for the store of a backend."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

import typer.main
from django.core.management.base import BaseCommand, CommandError, CommandParser

from stanchion.django.stores import backends
from stanchion.ops.cli import cli

APPS: Final = "stanchion.django.apps_by_backend"
"""The module whose attributes are the apps of the backends, for processes that load an app by its path."""

_OF_THE_APP: Final = frozenset({"url", "app", "target", "reload", "debug"})
"""Options that name the app, and options that Django's own ones replace."""


def app_path(backend: str) -> str:
    """Return the app of a backend as `module:attribute`. Raises CommandError for an unknown backend."""
    known = backends()
    if backend not in known:
        raise CommandError(f"TASKS has no Stanchion backend {backend!r}; it has {', '.join(known) or 'none'}")
    return f"{APPS}:{backend}"


@cache
def _group() -> Any:
    return typer.main.get_command(cli)


def run(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit code."""
    try:
        return int(_group().main(list(arguments), prog_name="manage.py stanchion", standalone_mode=False) or 0)
    except Exception as error:
        if not hasattr(error, "show"):  # wrong usage has a message of its own
            raise
        error.show()
        return int(getattr(error, "exit_code", 2))


class CliCommand(BaseCommand):
    """A command of `manage.py` with the options of one of the command line."""

    cli_name: ClassVar[str]
    requires_system_checks = "__all__"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the command."""
        parser.add_argument(
            "--backend", default="default", metavar="NAME", help="The backend in TASKS whose store is used."
        )
        for option in self._options():
            given: dict[str, Any] = {"dest": option.name, "help": (option.help or "").replace("%", "%%")}
            if option.is_flag:
                given["action"] = "store_true"
            else:
                given |= {"action": "append" if option.multiple else "store", "metavar": option.metavar}
                if option.default not in (None, "", False):
                    given["help"] += f" Default: {option.default}."
            parser.add_argument(*self._flags(parser, option.opts), **given)

    def call(self, options: Mapping[str, object], *before: str) -> int:
        """Run the command with the options of `manage.py`, and arguments that go before them; return its exit code."""
        return run([self.cli_name, *before, *self._given(options)])

    @staticmethod
    def finish(code: int) -> None:
        """End the process with an exit code other than 0."""
        if code:
            sys.exit(code)

    def _given(self, options: Mapping[str, object]) -> Iterator[str]:
        if options.get("traceback"):
            yield "--debug"
        for option in self._options():
            value = options.get(option.name)
            if option.is_flag:
                yield from [option.opts[0]] if value else []
            elif value is not None:
                for one in value if isinstance(value, (list, tuple)) else [value]:
                    yield from (option.opts[0], str(one))

    def _options(self) -> list[Any]:
        found = _group().commands[self.cli_name].params
        return [one for one in found if one.name not in _OF_THE_APP and one.param_type_name == "option"]

    @staticmethod
    def _flags(parser: CommandParser, wanted: Iterable[str]) -> list[str]:
        return [flag for flag in wanted if flag not in parser._option_string_actions]
