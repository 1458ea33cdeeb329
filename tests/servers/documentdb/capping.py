"""The commands that know capped collections; for all others they are as the ones they stand before."""

from typing import Any

import bson

from tests.servers.documentdb import defining, reading, writing
from tests.servers.documentdb.backend import text
from tests.servers.documentdb.capped import NUMBER, CappedCollection
from tests.servers.documentdb.context import Answer, Context, Handler
from tests.servers.documentdb.errors import CommandError
from tests.servers.documentdb.wire import Command

BAD_VALUE = 2
INVALID_OPTIONS = 72

CAPPED_OPTIONS = ("capped", "size", "max")
EXISTS = "SELECT 1 FROM documentdb_api_catalog.collections WHERE database_name = $1 AND collection_name = $2"


def capped(context: Context, command: Command) -> CappedCollection | None:
    """Return the collection of the command, if it is capped."""
    name = command.body["collection"] if command.name == "getMore" else command.target
    return context.parts.capped.get(command.database, name)


def create(context: Context, command: Command) -> Answer:
    """Make a collection; a capped one is an ordinary one in DocumentDB."""
    if not command.body.get("capped"):
        return defining.HANDLERS["create"](context, command)
    refuse_in_transaction(command)
    if "size" not in command.body:
        raise CommandError(INVALID_OPTIONS, "the 'size' field is required when 'capped' is true")
    plain = {key: value for key, value in command.body.items() if key not in CAPPED_OPTIONS}
    answer = defining.HANDLERS["create"](context, command.changed(plain))
    size, most = int(command.body["size"]), int(command.body.get("max", 0))
    with context.session(command) as session:
        context.parts.capped.create(session, command.database, command.target, size, most)
    return answer


def insert(context: Context, command: Command) -> Answer:
    """Insert documents."""
    collection = capped(context, command)
    if collection is None:
        return writing.HANDLERS["insert"](context, command)
    refuse_in_transaction(command)
    with context.session(command) as session:
        answer = collection.insert(session, command)
    return writing.with_codes(context, command, answer)


def find(context: Context, command: Command) -> Answer:
    """Find documents, those of a capped collection in the order of insertion."""
    collection = capped(context, command)
    if command.body.get("tailable"):
        return find_tailable(context, command, collection)
    if collection is None:
        return reading.HANDLERS["find"](context, command)
    order = command.body.get("sort") or {}
    if not order or "$natural" in order:
        command = command.changed({**command.body, "sort": {NUMBER: order.get("$natural", 1)}})
    return without_numbers(reading.HANDLERS["find"](context, command))


def find_tailable(context: Context, command: Command, collection: CappedCollection | None) -> Answer:
    """Open a cursor that follows what is inserted."""
    if collection is not None:
        return context.parts.tails.open(collection, command.body)
    with context.session(command) as session:
        if session.row(EXISTS, text(command.database), text(command.target)):
            raise CommandError(BAD_VALUE, "tailable cursor requested on non capped collection")
    namespace = f"{command.database}.{command.target}"
    return {"cursor": {"id": bson.Int64(0), "ns": namespace, "firstBatch": []}, "ok": 1.0}


def get_more(context: Context, command: Command) -> Answer:
    """Return the next page of a cursor."""
    tailed = context.parts.tails.get_more(command.target, command.body)
    return tailed or stripped("getMore")(context, command)


def kill_cursors(context: Context, command: Command) -> Answer:
    """Close cursors."""
    tails = [number for number in command.body["cursors"] if context.parts.tails.kill(number)]
    others = [number for number in command.body["cursors"] if number not in tails]
    answer = reading.kill_cursors(context, command.changed({**command.body, "cursors": others}))
    answer["cursorsKilled"] += [bson.Int64(number) for number in tails]
    return answer


def drop(context: Context, command: Command) -> Answer:
    """Drop a collection or a database, with the cursors that follow it."""
    answer = defining.HANDLERS[command.name](context, command)
    name = command.target if command.name == "drop" else None
    with context.parts.sessions.one() as session:
        context.parts.capped.forget(session, command.database, name)
    return answer


def list_collections(context: Context, command: Command) -> Answer:
    """List the collections with their options."""
    answer = decoded(reading.HANDLERS["listCollections"](context, command))
    for each in answer["cursor"]["firstBatch"]:
        collection = context.parts.capped.get(command.database, each["name"])
        if collection is not None:
            each["options"] = {**each.get("options", {}), **collection.options}
    return answer


def stripped(name: str) -> Handler:
    """Return the handler of a command whose answer must not show the hidden numbers."""
    plain = reading.HANDLERS[name]

    def handle(context: Context, command: Command) -> Answer:
        answer = plain(context, command)
        return answer if capped(context, command) is None else without_numbers(answer)

    return handle


def without_numbers(answer: Answer) -> Answer:
    """Take the hidden numbers out of a cursor's page."""
    document = decoded(answer)
    for batch in ("firstBatch", "nextBatch"):
        for each in document["cursor"].get(batch, ()):
            each.pop(NUMBER, None)
    return document


def decoded(answer: Answer) -> dict[str, Any]:
    return bson.decode(answer) if isinstance(answer, bytes) else answer


def refuse_in_transaction(command: Command) -> None:
    if command.in_transaction:
        raise CommandError(defining.NOT_IN_TRANSACTION, "capped collections can't be written in a transaction")


HANDLERS: dict[str, Handler] = {
    "create": create,
    "insert": insert,
    "find": find,
    "aggregate": stripped("aggregate"),
    "getMore": get_more,
    "killCursors": kill_cursors,
    "drop": drop,
    "dropDatabase": drop,
    "listCollections": list_collections,
}
