"""The collections, as one client or one session of a caller reaches them."""

from __future__ import annotations

from typing import Any

from pymongo import WriteConcern
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database

from stanchion.stores.mongo.client.documents import Document

JOBS = "stanchion_jobs"
QUEUES = "stanchion_queues"
WORKERS = "stanchion_workers"
VALUES = "stanchion_notes"
GATES = "stanchion_gates"
NODES = "stanchion_nodes"
ENDS = "stanchion_ends"
STAGE = "stanchion_stage"
SIGNALS = "stanchion_signals"
META = "stanchion_meta"


class Place:
    """Where a call works: every command of it is given the `session`, which may be None."""

    def __init__(self, database: Database[Document], session: ClientSession | None) -> None:
        self.database, self.session = database, session
        self.jobs: Collection[Document] = database[JOBS]
        self.queues: Collection[Document] = database[QUEUES]
        self.workers: Collection[Document] = database[WORKERS]
        self.values: Collection[Document] = database[VALUES]
        self.gates: Collection[Document] = database[GATES]
        self.nodes: Collection[Document] = database[NODES]
        self.ends: Collection[Document] = database[ENDS]
        self.stage: Collection[Document] = database[STAGE]
        self.meta: Collection[Document] = database[META]
        # A signal that is lost costs one poll: it waits for no other node.
        self.signals: Collection[Document] = database.get_collection(SIGNALS, write_concern=WriteConcern(w=1))

    def documents(self, collection: Collection[Document], *stages: dict[str, Any]) -> list[Document]:
        """Return what an aggregation finds."""
        return list(collection.aggregate(list(stages), session=self.session))
