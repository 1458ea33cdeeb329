"""Sessions of a caller's own, and calls that meet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pymysql
from sqlalchemy.engine import make_url


def connect(url: str, **options: Any) -> pymysql.Connection[Any]:
    """Open a connection as a caller would."""
    parts = make_url(url)
    return pymysql.connect(
        host=parts.host,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        database=parts.database,
        **options,
    )


def at_once(targets: list[Callable[[], Any]]) -> None:
    """Run these in a thread each, and raise the first error."""
    errors: list[BaseException] = []

    def guarded(target: Callable[[], Any]) -> None:
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
