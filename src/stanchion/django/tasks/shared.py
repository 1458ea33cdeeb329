"""The app of each backend: one in each process, while Django makes a backend for each thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from stanchion.context import context_of
from stanchion.django.databases.testing import before_drop
from stanchion.django.tasks.options import address_of, made_with

if TYPE_CHECKING:
    from stanchion import Stanchion


class _Made(NamedTuple):
    alias: str
    options: Mapping[str, object]
    app: Stanchion


_made: list[_Made] = []
"""One for each alias; more if settings change, as in tests."""
_making = threading.Lock()


def close_all() -> None:
    """Close all apps of this process; a later call reopens them."""
    for made in _made:
        made.app.close()


before_drop(close_all)


def shared(alias: str, options: Mapping[str, object]) -> Stanchion:
    """Return the app of a backend with these options, made at first use. Its store follows the database's name."""
    with _making:
        app = next((made.app for made in _made if made.alias == alias and made.options == options), None)
        if app is None:
            app = _new(alias, options)
            _made.append(_Made(alias, dict(options), app))
    context_of(app).follow_url()
    return app


def _new(alias: str, options: Mapping[str, object]) -> Stanchion:
    from stanchion import Stanchion
    from stanchion.django.tasks.running import prepare

    app = Stanchion(address_of(options), **made_with(options))
    prepare(app, alias)
    return app
