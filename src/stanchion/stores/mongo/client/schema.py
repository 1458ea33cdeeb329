"""The collections, and their versions.

    stanchion_jobs        live and finished jobs: a job stays one document, so that one atomic update ends or
                          retries it; the index of queued jobs holds live jobs only
    stanchion_queues      settings, claim lock, bucket of the rate, folded counts
    stanchion_workers     one document per live worker: its heartbeat
    stanchion_values      versioned values: small texts, changed by compare-and-set; and begun publications
    stanchion_slots       holders of semaphores and order keys, and buckets of keyed rates
    stanchion_flow_nodes  the nodes of flows, and their states
    stanchion_flow_ends   the member ends of these nodes
    stanchion_stage       staged jobs, or many prepared ones, and one document per write: the time of its last use
    stanchion_signals     capped: signals, read by a tailable cursor
    stanchion_meta        the version of the schema, and the identity of the database

Times are microseconds since 1970 UTC, by the server's clock.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import CollectionInvalid, OperationFailure

from stanchion.errors import SchemaMismatch
from stanchion.stores.fields.indexes import (
    ENDED,
    ENDED_KEYS,
    FLOWS,
    LEASES,
    LETTERS,
    ORDER_KEYS,
    JobIndex,
)
from stanchion.stores.mongo.client import place as places
from stanchion.stores.mongo.client.place import Place

VERSION = 1
_PLAIN = (places.QUEUES, places.WORKERS, places.SLOTS)
SCHEMA_ID = "schema"
SIGNAL_BYTES, SIGNALS = 1 << 20, 1000
_EXISTS = 48
_REFUSED = frozenset({59, 115, 238})  # error codes of servers without capped collections


class Index(NamedTuple):
    """An index: its name, its fields in order, its options."""

    name: str
    keys: dict[str, int]
    options: dict[str, Any]


def _ascending(index: JobIndex) -> dict[str, int]:
    return dict.fromkeys(("_id" if name == "id" else name for name in index.fields), ASCENDING)


def _where(field: str) -> dict[str, object]:
    return {"partialFilterExpression": {field: {"$exists": True}}}


INDEXES: dict[str, tuple[Index, ...]] = {
    places.JOBS: (
        # Queued jobs in claim order: within each rank, due jobs first.
        Index(
            "ready",
            {
                "live": ASCENDING,  # constant, so that queries on it are answered from the index
                "queue": ASCENDING,
                "state": ASCENDING,
                "lane": ASCENDING,
                "rank": DESCENDING,
                "run_at": ASCENDING,
                "_id": ASCENDING,
            },
            {"partialFilterExpression": {"live": True}},
        ),
        Index("unique", {"queue": ASCENDING, "unique": ASCENDING}, {"unique": True, **_where("unique")}),
        Index("leases", _ascending(LEASES), _where(LEASES.of)),
        Index("holders", {"held_by": ASCENDING}, _where("held_by")),
        # Jobs reserved under a token.
        Index("reserved", {"token": ASCENDING, "_id": ASCENDING}, {"partialFilterExpression": {"state": "running"}}),
        Index("newest", {"queue": ASCENDING, "_id": DESCENDING}, {}),
        Index("finished", _ascending(ENDED), _where(ENDED.of)),
        # The finished jobs of a key.
        Index(
            "ended_keys",
            _ascending(ENDED_KEYS),
            {"partialFilterExpression": {"key": {"$exists": True}, "finished_at": {"$exists": True}}},
        ),
        Index("letters", {**_ascending(LETTERS), "_id": DESCENDING}, _where(LETTERS.of)),
        Index("gone", {"gone": ASCENDING}, _where("gone")),
        Index("events", {"events.queue": ASCENDING}, {"sparse": True}),
        Index("overdue", {"overdue_at": ASCENDING}, _where("overdue_at")),
        Index("expired", {"expires_at": ASCENDING}, {"expireAfterSeconds": 0}),
        # Waiters for a slot by arrival, and the head of line of an order key.
        Index("waiting", {"waits_for": ASCENDING, "waits_since": ASCENDING, "_id": ASCENDING}, _where("waits_for")),
        Index(
            "order",
            {"live": ASCENDING, **_ascending(ORDER_KEYS)},
            {"partialFilterExpression": {"live": True, ORDER_KEYS.of: {"$exists": True}}},
        ),
        # The live jobs that carry chunks, for counting their items.
        Index("chunks", {"queue": ASCENDING}, {"partialFilterExpression": {"live": True, "items": {"$exists": True}}}),
        Index("flow", _ascending(FLOWS), _where(FLOWS.of)),
        Index("outbox", {"outbox.written_at": ASCENDING}, {"sparse": True}),
    ),
    places.NODES: (
        Index("root", {"root": ASCENDING}, {}),
        Index("ended", {"finished_at": ASCENDING}, _where("finished_at")),
        Index("unfollowed", {"unfollowed": ASCENDING}, _where("unfollowed")),
        Index("assembling", {"assembling": ASCENDING}, _where("assembling")),
        Index("adding", {"adding.written_at": ASCENDING}, {"sparse": True}),
    ),
    places.ENDS: (
        Index("member", {"node": ASCENDING, "index": ASCENDING}, {}),
        Index("uncounted", {"uncounted": ASCENDING}, _where("uncounted")),
    ),
    places.VALUES: (
        Index("kind", {"kind": ASCENDING}, {}),
        Index("begun", {"begun.touched_at": ASCENDING}, {"sparse": True}),
    ),
    places.STAGE: (
        Index("attempt", {"write": ASCENDING, "attempt": ASCENDING, "job": ASCENDING}, {}),
        Index("used", {"used_at": ASCENDING}, _where("used_at")),
    ),
}


def set_up(on: Place) -> list[str]:
    """Make collections and indexes; may be repeated, also while workers run. Return the steps taken."""
    found = version(on)
    if found is not None and found > VERSION:
        raise SchemaMismatch(_newer(found))
    taken = steps(on)
    for name, indexes in INDEXES.items():
        on.database[name].create_indexes(
            [IndexModel(list(index.keys.items()), name=index.name, **index.options) for index in indexes]
        )
    for name in _PLAIN:
        _create(on, name)
    make_signals(on)
    on.meta.update_one(
        {"_id": SCHEMA_ID}, {"$set": {"version": VERSION}, "$setOnInsert": {"store": ObjectId()}}, upsert=True
    )
    return taken


def make_signals(on: Place) -> bool:
    """Make sure that the signals collection is capped; False if the server has none."""
    found = next(on.database.list_collections(filter={"name": places.SIGNALS}), None)
    if found is not None and not found["options"].get("capped"):  # after a drop, a signal has made it uncapped
        on.database.drop_collection(places.SIGNALS)
        found = None
    try:
        if found is None:
            _create(on, places.SIGNALS, capped=True, size=SIGNAL_BYTES, max=SIGNALS)
    except OperationFailure as error:
        if error.code in _REFUSED:
            return False
        raise
    return True


def _create(on: Place, name: str, **options: Any) -> None:
    """Make a collection unless it exists."""
    try:
        on.database.create_collection(name, **options)
    except CollectionInvalid:
        return
    except OperationFailure as error:
        if error.code != _EXISTS:  # another setup came first
            raise


def checked(on: Place) -> None:
    """Raise SchemaMismatch unless this code supports the schema."""
    found = version(on)
    if found is None:
        raise SchemaMismatch("the database has no Stanchion collections; make them with: stanchion setup --url ...")
    if found > VERSION:
        raise SchemaMismatch(_newer(found))
    if found < VERSION:
        raise SchemaMismatch(
            f"the collections are of version {found}, older than this release's {VERSION}; "
            f"bring them up to date with: stanchion setup --url ..."
        )


def version(on: Place) -> int | None:
    """Return the version of the schema; None if there is none."""
    found = on.meta.find_one({"_id": SCHEMA_ID})
    return None if found is None else int(found["version"])


def steps(on: Place | None) -> list[str]:
    """Return the steps of `set_up`, for mongosh; None: for a new database."""
    there = {} if on is None else {one["name"]: one for one in on.database.list_collections()}
    lines: list[str] = []
    for name, indexes in INDEXES.items():
        made = {} if on is None or name not in there else on.database[name].index_information()
        lines += [
            f"db.{name}.createIndex({json.dumps(index.keys)}, {json.dumps({'name': index.name, **index.options})});"
            for index in indexes
            if index.name not in made
        ]
    lines += [f'db.createCollection("{name}");' for name in _PLAIN if name not in there]
    if places.SIGNALS not in there:
        capped = json.dumps({"capped": True, "size": SIGNAL_BYTES, "max": SIGNALS})
        lines.append(f'db.createCollection("{places.SIGNALS}", {capped});')
    if on is None or version(on) != VERSION:
        lines.append(
            f'db.{places.META}.updateOne({{"_id": "{SCHEMA_ID}"}}, {{$set: {{"version": NumberInt({VERSION})}}, '
            f"$setOnInsert: {{store: new ObjectId()}}}}, {{upsert: true}});"
        )
    return lines


def _newer(found: int) -> str:
    return (
        f"the collections are of version {found}, newer than this release's {VERSION}; "
        f"upgrade this process: pip install -U stanchion"
    )
