"""The SQLite store behaves as every store does."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore

del TestRefusing  # noqa: F821
del TestNoTables  # noqa: F821


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema, of which each test has a copy."""
    path = tmp_path_factory.mktemp("schema") / "jobs.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.setup()
    return path


@pytest.fixture
def store_factory(database: Path, tmp_path: Path) -> Iterator[NewStore]:
    copy = shutil.copy(database, tmp_path)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(f"sqlite:///{copy}?synchronous=off")))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path / 'elsewhere.db'}?synchronous=off")) as store:
        store.setup()
        yield store
