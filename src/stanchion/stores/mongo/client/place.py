"""The collections, as one client or one session of a caller reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import WriteConcern
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError

from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.errors import duplicates

JOBS = "stanchion_jobs"
QUEUES = "stanchion_queues"
WORKERS = "stanchion_workers"
VALUES = "stanchion_notes"
SLOTS = "stanchion_gates"
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
        self.slots: Collection[Document] = database[SLOTS]
        self.nodes: Collection[Document] = database[NODES]
        self.ends: Collection[Document] = database[ENDS]
        self.stage: Collection[Document] = database[STAGE]
        self.meta: Collection[Document] = database[META]
        # A signal that is lost costs one poll: it waits for no other node.
        self.signals: Collection[Document] = database.get_collection(SIGNALS, write_concern=WriteConcern(w=1))

    def documents(self, collection: Collection[Document], *stages: dict[str, Any]) -> list[Document]:
        """Return what an aggregation finds."""
        return list(collection.aggregate(list(stages), session=self.session))

    def insert(self, collection: Collection[Document], documents: Sequence[Document]) -> set[int]:
        """Insert documents, each on its own; return the positions of those that a unique index refused.

        In a transaction, which the first of them has ended, that is an error.
        """
        try:
            collection.insert_many(documents, ordered=False, session=self.session)
        except BulkWriteError as error:
            if self.session is not None:
                raise
            return duplicates(error)
        return set()

    def insert_missing(self, collection: Collection[Document], documents: Sequence[Document]) -> set[int]:
        """Insert documents as `insert` does; in a transaction those alone whose ids are not there."""
        if self.session is not None and documents:
            ids = {"_id": {"$in": [one["_id"] for one in documents]}}
            known = {one["_id"] for one in collection.find(ids, {"_id": 1}, session=self.session)}
            documents = [one for one in documents if one["_id"] not in known]
        return self.insert(collection, documents) if documents else set()
