"""What the collaborators of a store know, and its verbs don't tell."""

from stanchion.stores.cas.entries import Entry, Hold
from stanchion.stores.cas.staging import Begun, Staged
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.flows.ends import FlowEnds
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.slots import SlotDocuments
from stanchion.stores.mongo.staging import Stage
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.mongo.values import Values
from stanchion.stores.mongo.wakeup import AfterCommit
from stanchion.stores.records.flows import FlowNode


def entries(store: MongoStore) -> list[Entry]:
    """Return all outbox entries."""
    return list(Jobs(store.server, QueueDocuments(store.server), AfterCommit()).entries(store.now()))


def holds(store: MongoStore) -> list[Hold]:
    """Return all slots that are held."""
    return list(SlotDocuments(store.server).holds())


def unfollowed(store: MongoStore) -> list[FlowNode]:
    """Return the nodes whose end has not been followed up."""
    return FlowEnds(store.server).unfollowed()


def staged(store: MongoStore, write: str) -> dict[str, Staged]:
    """Return what each attempt of a write has staged."""
    return _stage(store).staged(write)


def begun(store: MongoStore) -> list[Begun]:
    """Return the publications that have begun and not ended."""
    return list(_stage(store).begun(store.now()))


def _stage(store: MongoStore) -> Stage:
    return Stage(store.server, Values(store.server), lambda _queue, _token: [], lambda _jobs: None)
