"""Claims by ids, and pushes of jobs that are to run, through a manager."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion_conformance.harness import QUEUE, claim, new_job, sizes_of
from stanchion_conformance.manager.by_id import named
from tests.manager.conftest import Start
from tests.servers.manager import ManagerThread


def test_a_client_knows_that_it_can(manager: ManagerThread, client: Callable[[str], Store]) -> None:
    assert client(manager.url).capabilities.claims_by_id


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"ids": (("no id", "w"),)}, "UUID"),
        ({"ids": ((new_id(), "w" * 1000),)}, "worker"),
        ({"ids": ((new_id(), "w"),) * 10_001}, "10,?000"),
        ({"not_after": -1}, "not_after"),
    ],
    ids=["id", "worker", "number", "bound"],
)
def test_what_no_client_should_send(
    manager: ManagerThread, client: Callable[[str], Store], given: dict[str, Any], match: str
) -> None:
    store = client(manager.url)
    wish = Claim(QUEUE, 1, new_id(), **given)
    with pytest.raises(InvalidInput, match=match):
        store.claim(wish)
    with pytest.raises(InvalidInput, match=match):
        store.push([new_job()], claim=wish)
    assert sizes_of(store, QUEUE).total == 0


def test_a_push_in_pieces_runs_them_all(manager: ManagerThread, client: Callable[[str], Store]) -> None:
    store = client(manager.url)
    jobs = [new_job(f'"{"1" * 3_000_000}"') for _ in range(8)]
    wish = named(*jobs)
    assert [one.token for one in store.push(jobs, claim=wish)] == [wish.token] * 8
    assert claim(store) == []


def test_no_arrow_comes_or_goes_through_a_manager(start: Start, client: Callable[[str], Store], tmp_path: Path) -> None:
    behind = client(f"sqlite:///{tmp_path / 'jobs.db'}")
    behind.setup()
    assert behind.capabilities.arrow
    assert behind.capabilities.prepared_jobs
    store = client(start(store=behind).url)
    store.check()
    assert not store.capabilities.arrow
    assert not store.capabilities.prepared_jobs
