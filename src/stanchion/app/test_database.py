"""The real store of a test database: emptied before and after a test, and never mistaken for one in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stanchion.cron import plan
from stanchion.errors import InvalidInput
from stanchion.partitions import layout
from stanchion.schemas import stored
from stanchion.stores.protocol import Store
from stanchion.stores.records.query import Query
from stanchion.stores.registry import shown_url
from stanchion.stores.rules.capacity import declared_rates, task_rates
from stanchion.topics import terms

_MARK: Final = "testing"
"""The kind of the value that marks a store of tests."""

_KINDS: Final = (plan.KIND, stored.KIND, declared_rates.KIND, task_rates.KIND, terms.KIND, layout.KIND)
"""The kinds of values that an app stores of what its code declares."""


@contextmanager
def emptied(store: Store, url: str) -> Iterator[Store]:
    """Lend a store without jobs, queues and declarations; empty it again at the end of the block.

    The first test marks the store, which must not have been used. Raises InvalidInput for another one.
    """
    try:
        store.setup()
        if not store.values(_MARK):
            _refuse_used(store, url)
            store.compare_and_set(_MARK, "store", "{}", 0)
        _empty(store)
        yield store
        _empty(store)
    finally:
        store.close()


def _refuse_used(store: Store, url: str) -> None:
    names = [queue.name for queue in store.queues()]
    used = [name for name, stats in store.stats(names, {"totals"}).items() if stats.totals.pushed]
    if used or store.select(Query(limit=1)).rows or store.workers():
        raise InvalidInput(
            f"{shown_url(url)} is in use, as it has had jobs or workers, and a test would delete them: give the URL of "
            f"a database that is for tests only, such as an empty one"
        )


def _empty(store: Store) -> None:
    for queue in store.queues():
        store.drop_queue(queue.name)
    for kind in _KINDS:
        for value in store.values(kind):
            store.compare_and_set(kind, value.name, None, value.version)
