"""The options of a push on the command line, from their table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Annotated, Any, Final, cast

import typer

from stanchion.core.text.durations import duration
from stanchion.jobs.options import PushOptions
from stanchion.ops.cli.console.given import loose_value, moment, names, pairs
from stanchion.stores.fields.jobs import OPTIONS, Kind, Option


def _as_given(given: object, _flag: str) -> object:
    return given


def _loose(given: str, _flag: str) -> object:
    return loose_value(given)


def _names(given: list[str], _flag: str) -> object:
    return names(given)


def _headers(given: list[str], _flag: str) -> object:
    return {name: loose_value(value) for name, value in pairs(given, "a header").items()}


_Form = tuple[Any, Callable[[Any, str], object]]
_OF_KIND: dict[Kind, _Form] = {
    **dict.fromkeys((Kind.NAME, Kind.WORD), (str, _as_given)),
    Kind.INT: (int, _as_given),
    Kind.FLAG: (bool, _as_given),
    Kind.REAL: (str, duration),
    Kind.MICROS: (str, moment),
    Kind.SMALL: (str, _loose),
}
"""The types of options on the command line, and the functions that return the values."""
_LISTS: dict[str, _Form] = {"limits": (list[str], _names), "headers": (list[str], _headers)}
_HELP = {
    "delay": "Due after this time, such as 30s or 2h.",
    "run_at": "Due at this ISO 8601 time; UTC unless it names an offset.",
    "priority": "From -100 to 100, higher first; or interactive, user_visible, eventual or reporting.",
    "limits": "A semaphore to hold while it runs; repeat for more.",
    "headers": "A header, JSON or plain text; repeat for more.",
}
_METAVARS = {
    **{one.name: "TIME" for one in OPTIONS if one.kind is Kind.REAL},
    "limits": "SEMAPHORE",
    "headers": "NAME=VALUE",
}
_FLAGS = {"priority": ("--priority", "-p"), "headers": ("--header",)}


def _flags(name: str) -> tuple[str, ...]:
    return _FLAGS.get(name, (f"--{name.replace('_', '-')}",))


def _form(option: Option) -> _Form:
    return _LISTS.get(option.name) or _OF_KIND[option.kind]


def _parameter(option: Option) -> Parameter:
    """Return the parameter of the command for an option of a push."""
    help = f"Time, such as 90s, {option.about}" if option.kind is Kind.REAL else option.about
    shown = typer.Option(*_flags(option.name), help=_HELP.get(option.name, help), metavar=_METAVARS.get(option.name))
    return Parameter(
        option.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[_form(option)[0] | None, shown]
    )


def _value(option: Option, given: object) -> object:
    """Return the value of an option that was given."""
    return _form(option)[1](given, _flags(option.name)[0])


PARAMETERS: Final = tuple(map(_parameter, OPTIONS))


def push_options(given: Mapping[str, object]) -> PushOptions:
    """Return the options that were given on the command line."""
    found = {one.name: _value(one, value) for one in OPTIONS if (value := given[one.name]) not in (None, [])}
    return cast(PushOptions, found)
