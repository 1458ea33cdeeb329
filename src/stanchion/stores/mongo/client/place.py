"""The collections, accessed through a client or a caller's session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo import WriteConcern
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError

from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.on_loop import AnySession

JOBS = "stanchion_jobs"
QUEUES = "stanchion_queues"
WORKERS = "stanchion_workers"
VALUES = "stanchion_values"
SLOTS = "stanchion_slots"
NODES = "stanchion_flow_nodes"
ENDS = "stanchion_flow_ends"
STAGE = "stanchion_stage"
SIGNALS = "stanchion_signals"
META = "stanchion_meta"


class Place:
    """The target of a call: every command of it is given `session`, which may be None."""

    def __init__(self, database: Database[Document], session: AnySession | None) -> None:
        self.database = database
        self.session: Any = session  # the collections are those of its client, whose kind of session they take
        self.jobs: Collection[Document] = database[JOBS]
        self.queues: Collection[Document] = database[QUEUES]
        self.workers: Collection[Document] = database[WORKERS]
        self.values: Collection[Document] = database[VALUES]
        self.slots: Collection[Document] = database[SLOTS]
        self.nodes: Collection[Document] = database[NODES]
        self.ends: Collection[Document] = database[ENDS]
        self.stage: Collection[Document] = database[STAGE]
        self.meta: Collection[Document] = database[META]
        # A lost signal costs one poll, so the write waits for no other node.
        self.signals: Collection[Document] = database.get_collection(SIGNALS, write_concern=WriteConcern(w=1))

    def documents(self, collection: Collection[Document], *stages: Document) -> list[Document]:
        """Return the results of an aggregation."""
        return list(collection.aggregate(list(stages), session=self.session))

    def insert(
        self, collection: Collection[Document], documents: Sequence[Document] | Sequence[RawBSONDocument]
    ) -> set[int]:
        """Insert documents independently; return the positions of documents that a unique index refused.

        In a transaction, which the first refusal aborts, that is an error.
        """
        try:
            collection.insert_many(documents, ordered=False, session=self.session)
        except BulkWriteError as error:
            if self.session is not None:
                raise
            return duplicates(error)
        return set()

    def insert_missing(self, collection: Collection[Document], documents: Sequence[Document]) -> set[int]:
        """Insert documents as `insert` does; in a transaction only the missing ones, by id."""
        if self.session is not None and documents:
            ids = {"_id": {"$in": [one["_id"] for one in documents]}}
            known = {one["_id"] for one in collection.find(ids, {"_id": 1}, session=self.session)}
            documents = [one for one in documents if one["_id"] not in known]
        return self.insert(collection, documents) if documents else set()
