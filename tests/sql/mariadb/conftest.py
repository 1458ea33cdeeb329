"""A store and an app on an empty database of MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from stanchion import Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store


@pytest.fixture
def store(mariadb_url: str) -> Iterator[Store]:
    with closing(open_store(mariadb_url)) as store:
        store.setup()
        yield store


@pytest.fixture
def app(store: Store) -> Stanchion:
    return Stanchion(store=store)
