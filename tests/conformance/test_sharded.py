"""A queue whose partitions are in two shards behaves as a partitioned queue does, but for what is refused there."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stanchion.partitions.store import PartitionedStore
from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import QUEUE, NewStore
from tests.conformance.variants import OF_SHARDS, leave_out_all_but

leave_out_all_but(globals(), *OF_SHARDS)


@pytest.fixture(params=["sqlite", pytest.param("servers", marks=[pytest.mark.slow, pytest.mark.nightly])])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The URLs of the two shards."""
    if request.param == "sqlite":
        return [f"sqlite:///{tmp_path / name}?synchronous=off" for name in ("one.db", "two.db")]
    return [request.getfixturevalue("pg_url"), request.getfixturevalue("mariadb_url")]


@pytest.fixture
def store_factory(urls: list[str], tmp_path: Path) -> Iterator[NewStore]:
    path = tmp_path / "shards.toml"
    path.write_text(
        f'default = "one"\n[shards]\none = "{urls[0]}"\ntwo = "{urls[1]}"\n[partitions.{QUEUE}]\ntwo = "1-2"\n'
    )
    with ExitStack() as stack:

        def new_store() -> PartitionedStore:
            return PartitionedStore(stack.enter_context(closing(open_store(f"shards:///{path}"))))

        with closing(open_store(f"shards:///{path}")) as store:
            store.setup()
            PartitionedStore(store).configure(QUEUE, {"partitions": 3})
        yield new_store
