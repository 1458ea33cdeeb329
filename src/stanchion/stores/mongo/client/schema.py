"""The collections, and their versions.

    stanchion_jobs      live jobs and finished ones: a job stays one document, so that it ends, and is retried, in one
                        atomic update; the index of queued jobs holds live jobs alone
    stanchion_queues    settings, claim lock, bucket of the rate, folded counts
    stanchion_workers   one document per live worker: its heartbeat
    stanchion_notes     versioned values: small texts, changed by compare-and-set; and the publications that have begun
    stanchion_gates     who holds semaphores and order keys, and the state of keyed rates
    stanchion_nodes     the nodes of flows, and how far each is
    stanchion_ends      the member ends of these nodes
    stanchion_stage     jobs laid aside until they are published, and for each write one document: when it was used
    stanchion_signals   capped: who tails it hears of new work
    stanchion_meta      the version of the schema, and the identity by which a store knows its database

Times are microseconds since 1970 UTC, by the server's clock.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import CollectionInvalid, OperationFailure

from stanchion.errors import SchemaMismatch
from stanchion.stores.mongo.client import place as places
from stanchion.stores.mongo.client.place import Place

VERSION = 3
_PLAIN = (places.QUEUES, places.WORKERS, places.SLOTS)
MARK = "schema"
SIGNAL_BYTES, SIGNALS = 1 << 20, 1000
_EXISTS = 48
_REFUSED = frozenset({59, 115, 238})  # as servers say that have no capped collections


class Index(NamedTuple):
    """An index: its name, its fields in order, its options."""

    name: str
    keys: dict[str, int]
    options: dict[str, Any]


def _where(field: str) -> dict[str, Any]:
    return {"partialFilterExpression": {field: {"$exists": True}}}


INDEXES: dict[str, tuple[Index, ...]] = {
    places.JOBS: (
        # The queued jobs. A claim reads them in order: within each priority up to what is due, then on to the next.
        Index(
            "line",
            {
                "live": ASCENDING,  # the same in all, so that the index alone answers what names it
                "queue": ASCENDING,
                "state": ASCENDING,
                "lane": ASCENDING,
                "priority": DESCENDING,
                "run_at": ASCENDING,
                "_id": ASCENDING,
            },
            {"partialFilterExpression": {"live": True}},
        ),
        Index("unique", {"queue": ASCENDING, "unique": ASCENDING}, {"unique": True, **_where("unique")}),
        Index("leases", {"lease_until": ASCENDING}, _where("lease_until")),
        Index("holders", {"held_by": ASCENDING}, _where("held_by")),
        # The jobs that are reserved under a token.
        Index("hand", {"token": ASCENDING, "_id": ASCENDING}, {"partialFilterExpression": {"state": "running"}}),
        Index("newest", {"queue": ASCENDING, "_id": DESCENDING}, {}),
        Index("finished", {"queue": ASCENDING, "finished_at": ASCENDING}, _where("finished_at")),
        Index("gone", {"gone": ASCENDING}, _where("gone")),
        Index("events", {"events.queue": ASCENDING}, {"sparse": True}),
        Index("expired", {"expires_at": ASCENDING}, {"expireAfterSeconds": 0}),
        # Who waits at a slot, in order, and the head of the line of an order key.
        Index("waiting", {"waits_for": ASCENDING, "waits_since": ASCENDING, "_id": ASCENDING}, _where("waits_for")),
        Index(
            "order",
            {"live": ASCENDING, "queue": ASCENDING, "order_key": ASCENDING, "enqueued_at": ASCENDING, "_id": ASCENDING},
            {"partialFilterExpression": {"live": True, "order_key": {"$exists": True}}},
        ),
        Index("flow", {"flow": ASCENDING}, _where("flow")),
        Index("duties", {"duties.noted_at": ASCENDING}, {"sparse": True}),
    ),
    places.NODES: (
        Index("root", {"root": ASCENDING}, {}),
        Index("ended", {"finished_at": ASCENDING}, _where("finished_at")),
        Index("unfollowed", {"unfollowed": ASCENDING}, _where("unfollowed")),
        Index("assembling", {"assembling": ASCENDING}, _where("assembling")),
        Index("adding", {"adding.noted_at": ASCENDING}, {"sparse": True}),
    ),
    places.ENDS: (
        Index("place", {"node": ASCENDING, "place": ASCENDING}, {}),
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
    """Make collections and indexes; safe to repeat, and while workers run. Return what was to be done."""
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
        {"_id": MARK}, {"$set": {"version": VERSION}, "$setOnInsert": {"store": ObjectId()}}, upsert=True
    )
    return taken


def make_signals(on: Place) -> bool:
    """Make sure that the signals are a capped collection; False where the server has none."""
    found = next(on.database.list_collections(filter={"name": places.SIGNALS}), None)
    if found is not None and not found["options"].get("capped"):  # a signal after somebody had dropped it made it
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
    """Make a collection unless it is there."""
    try:
        on.database.create_collection(name, **options)
    except CollectionInvalid:
        return
    except OperationFailure as error:
        if error.code != _EXISTS:  # another setup came first
            raise


def checked(on: Place) -> None:
    """Raise SchemaMismatch unless this code can work with what is there."""
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
    """Return the version of the schema; None when there is none."""
    found = on.meta.find_one({"_id": MARK})
    return None if found is None else int(found["version"])


def steps(on: Place | None) -> list[str]:
    """Return what `set_up` has to do, for mongosh; None: in a new database."""
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
            f'db.{places.META}.updateOne({{"_id": "{MARK}"}}, {{$set: {{"version": NumberInt({VERSION})}}, '
            f"$setOnInsert: {{store: new ObjectId()}}}}, {{upsert: true}});"
        )
    return lines


def _newer(found: int) -> str:
    return (
        f"the collections are of version {found}, newer than this release's {VERSION}; "
        f"upgrade this process: pip install -U stanchion"
    )
