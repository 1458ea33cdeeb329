"""Queues that another program has made under names that no queue may have: they can be found, and deleted."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import new_job

GHOSTS = ("mail#3", "lost#0", "two\nlines")


class TestGhostQueues:
    def test_are_deleted_by_their_names(self, app: Stanchion, store: Store) -> None:
        app.queue("mail").push(1)
        for ghost in GHOSTS:
            with pytest.raises(InvalidInput):
                app.queue(ghost)
            try:
                store.push([new_job(queue=ghost), new_job(queue=ghost)])
            except InvalidInput:
                continue  # a manager makes none
            assert [queue.name for queue in app.queues()] == ["mail"]
            assert {one.name for one in app.store.queues()} == {"mail", ghost}
            assert app.delete_queue(ghost) == 2
            assert [one.name for one in app.store.queues()] == ["mail"]
        assert app.queue("mail").size().ready == 1
        assert app.delete_queue("mail#3") == app.delete_queue("nosuch") == 0

    def test_a_partition_is_none(self, app: Stanchion, store: Store) -> None:
        parted = app.queue("parted", partitions=3)
        parted.push_many(range(12))
        other = Stanchion(store=store)
        for name in ("parted#0", "parted#2"):
            with pytest.raises(InvalidInput, match="name the queue itself, 'parted'"):
                other.delete_queue(name)
        assert other.delete_queue("parted#7") == 0
        assert parted.size().ready == 12
        assert other.delete_queue("parted") == 12
        assert app.store.queues() == store.queues() == []
