"""Signals that wait for the commit of a caller's transaction, where SQLAlchemy's Session or Django reports it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from stanchion.stores.sql.engine.callers import Caller

_KEY = "stanchion"


class Announces(Protocol):
    """Wakes listeners."""

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake the listeners of these queues, or of the ends of these jobs, without waiting."""


def announce_after_commit(
    caller: Caller, signals: Announces, queues: Iterable[str], finished: Collection[str] = ()
) -> bool:
    """Announce once the outermost transaction is committed; return False if this caller does not report it."""
    names, ended = set(queues), set(finished)
    if caller.django is not None:
        if not caller.django.in_atomic_block:  # its autocommit is off, and Django does not know of commits
            return False
        caller.django.on_commit(lambda: signals.announce(names, ended))
        return True
    if caller.session is None:
        return False
    waiting = caller.session.info.get(_KEY)
    if waiting is None:
        from sqlalchemy import event

        waiting = caller.session.info[_KEY] = {}
        event.listen(caller.session, "after_commit", _committed)
        event.listen(caller.session, "after_rollback", _rolled_back)
    all_names, all_ended = waiting.setdefault(signals, (set(), set()))
    all_names.update(names)
    all_ended.update(ended)
    return True


def _committed(session: Any) -> None:
    if session.in_nested_transaction():  # a savepoint, which the outer transaction may still roll back
        return
    waiting = dict(session.info[_KEY])
    session.info[_KEY].clear()
    for signals, news in waiting.items():
        signals.announce(*news)


def _rolled_back(session: Any) -> None:
    if not session.in_nested_transaction():  # what came before a savepoint may still be committed
        session.info[_KEY].clear()
