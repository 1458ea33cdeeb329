"""The OPTIONS of a backend in settings.TASKS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

from stanchion.core.names.partition_names import checked_queue
from stanchion.django.databases.database import in_memory, url_of
from stanchion.django.databases.testing import in_test_run
from stanchion.errors import StanchionError

PLACES = ("database", "url")
"""The options that say where the store is: one of them."""

OF_THE_APP = ("keys", "max_payload", "poll", "bury_unknown_after", "timeout", "traces", "retry", "warn_blocking")
"""The options that are arguments of `Stanchion`."""


def alias_of(options: Mapping[str, object]) -> str:
    """Return the alias of the database that holds the store, unless it has a URL."""
    return str(options.get("database", DEFAULT_DB_ALIAS))


def joins(options: Mapping[str, object]) -> bool:
    """Return whether the store is in a database of Django, so that jobs are stored in its transactions."""
    return not options.get("url")


def address_of(options: Mapping[str, object]) -> str | Callable[[], str]:
    """Return the store's URL, or a function that returns it."""
    return str(options["url"]) if options.get("url") else partial(url_of, alias_of(options))


def made_with(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of the app. Raises ImproperlyConfigured for wrong options."""
    if wrong := _wrong(options):
        raise ImproperlyConfigured(wrong)
    return {name: options[name] for name in OF_THE_APP if name in options}


def problems(alias: str, options: Mapping[str, object], queues: Iterable[str]) -> list[CheckMessage]:
    """Return the errors in the settings of a backend."""
    found = list[CheckMessage]()

    def add(number: int, message: str, hint: str) -> None:
        found.append(Error(f"TASKS[{alias!r}]: {message}", hint=hint, id=f"stanchion.E{number:03}"))

    if wrong := _wrong(options):
        add(1, wrong, f"OPTIONS may have: {', '.join((*PLACES, *OF_THE_APP))}.")
    if alias_of(options) not in connections:
        add(2, f"OPTIONS['database'] is {alias_of(options)!r}, which DATABASES lacks", "Name an alias of DATABASES.")
    elif not found:
        try:
            _try(options)
        except (StanchionError, ImproperlyConfigured) as error:
            add(3, str(error), "Correct OPTIONS.")
    for queue in queues:
        try:
            checked_queue(queue)
        except StanchionError as error:
            add(4, str(error), "Rename the queue in QUEUES, and in the tasks that name it.")
    if not any(name.startswith("stanchion.django") for name in settings.INSTALLED_APPS):
        found.append(
            Warning(
                f"TASKS[{alias!r}]: INSTALLED_APPS lacks 'stanchion.django', which has the migrations and commands.",
                hint="Add 'stanchion.django' to INSTALLED_APPS.",
                id="stanchion.W003",
            )
        )
    return found


def _try(options: Mapping[str, object]) -> None:
    """Make the app and its store, which connect to nothing.

    Test runs on a database in memory make no store: tests that need one use `testing()`, or learn it from the error.
    """
    from stanchion import Stanchion
    from stanchion.stores.registry import open_store

    place = address_of(options)
    Stanchion(place, **made_with(options))
    if joins(options) and in_test_run() and in_memory(alias_of(options)):
        return
    open_store(place if isinstance(place, str) else place()).close()


def _wrong(options: Mapping[str, object]) -> str | None:
    if unknown := sorted(set(options) - {*PLACES, *OF_THE_APP}):
        return f"OPTIONS has no {', '.join(map(repr, unknown))}"
    if all(options.get(place) for place in PLACES):
        return "OPTIONS has 'database' and 'url', and the store is in one of them: leave out the other"
    return None
