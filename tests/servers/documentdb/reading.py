"""Commands that read."""

import json
from typing import Any

import bson

from tests.servers.documentdb.backend import as_integer, document, text
from tests.servers.documentdb.context import Answer, Context, Handler
from tests.servers.documentdb.cursors import Continuation
from tests.servers.documentdb.errors import CommandError
from tests.servers.documentdb.wire import Command

COMMAND_NOT_FOUND = 59
EXPLAINED = {"find": "find", "aggregate": "pipeline", "count": "count", "distinct": "distinct"}
TRUE = b"\x01"


def first_page(function: str) -> Handler:
    """Return the handler of a command that opens a cursor."""
    statement = f"""
        SELECT cursorpage, continuation, cursorid FROM documentdb_api.{function}($1, $2)
    """

    def handle(context: Context, command: Command) -> Answer:
        with context.session(command) as session:
            page, state, number = session.row(statement, text(command.database), document(command.raw))
            if state:
                context.parts.cursors.keep(as_integer(number), Continuation(command.database, state))
        return page

    return handle


def get_more(context: Context, command: Command) -> Answer:
    """Return the next page of a cursor."""
    number = command.target
    continuation = context.parts.cursors.take(number)
    with context.session(command) as session:
        page, state = session.row(
            "SELECT cursorpage, continuation FROM documentdb_api.cursor_get_more($1, $2, $3)",
            text(continuation.database),
            document(command.raw),
            document(continuation.state),
        )
    if state:
        context.parts.cursors.keep(number, Continuation(continuation.database, state))
    return page


def kill_cursors(context: Context, command: Command) -> dict[str, Any]:
    """Close cursors."""
    killed: list[bson.Int64] = []
    unknown: list[bson.Int64] = []
    for number in command.body["cursors"]:
        (killed if context.parts.cursors.kill(number) else unknown).append(bson.Int64(number))
    return {"cursorsKilled": killed, "cursorsNotFound": unknown, "cursorsAlive": [], "cursorsUnknown": [], "ok": 1.0}


def one_answer(function: str) -> Handler:
    """Return the handler of a command with one answer."""
    statement = f"SELECT document FROM documentdb_api.{function}($1, $2)"

    def handle(context: Context, command: Command) -> Answer:
        with context.session(command) as session:
            (answer,) = session.row(statement, text(command.database), document(command.raw))
        return answer

    return handle


def explain(context: Context, command: Command) -> Answer:
    """Return PostgreSQL's plan."""
    explained = command.target
    name = next(iter(explained))
    if name not in EXPLAINED:
        raise CommandError(COMMAND_NOT_FOUND, f"explain of {name} is not offered")
    statement = f"""
        EXPLAIN (FORMAT json, VERBOSE) SELECT document FROM documentdb_api_catalog.bson_aggregation_{EXPLAINED[name]}
        ('{quoted(command.database)}', 'BSONHEX{bson.encode(explained).hex()}'::documentdb_core.bson)
    """
    with context.session(command) as session:
        plan = session.run(statement)
    assert plan is not None
    namespace = f"{command.database}.{explained[name]}"
    return {"queryPlanner": {"namespace": namespace, "postgresql": json.loads(plan)}, "ok": 1.0}


def quoted(value: str) -> str:
    return value.replace("'", "''")


HANDLERS: dict[str, Handler] = {
    "find": first_page("find_cursor_first_page"),
    "aggregate": first_page("aggregate_cursor_first_page"),
    "listCollections": first_page("list_collections_cursor_first_page"),
    "listIndexes": first_page("list_indexes_cursor_first_page"),
    "getMore": get_more,
    "killCursors": kill_cursors,
    "count": one_answer("count_query"),
    "distinct": one_answer("distinct_query"),
    "explain": explain,
}
