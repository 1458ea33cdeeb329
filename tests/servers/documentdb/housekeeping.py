"""Commands about the server and its sessions."""

import uuid
from typing import Any

import bson

from tests.servers.documentdb.backend import as_integer
from tests.servers.documentdb.context import Answer, Context, Handler
from tests.servers.documentdb.wire import MAX_DOCUMENT, MAX_MESSAGE, Command

SET_NAME = "rs0"
ELECTION = bson.ObjectId("7fffffff0000000000000001")
SESSION_MINUTES = 30
WIRE_VERSION = 21
VERSION = [7, 0, 0, 0]
MAX_BATCH = 25_000  # documentdb.maxWriteBatchSize
NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8"
OK = {"ok": 1.0}


def topology(context: Context) -> dict[str, Any]:
    """Return what tells a client what kind of server this is."""
    if context.like == "mongos":
        return {"msg": "isdbgrid"}
    if context.like == "standalone":
        return {}
    address = f"127.0.0.1:{context.port}"
    return {
        "setName": SET_NAME,
        "setVersion": 1,
        "electionId": ELECTION,
        "hosts": [address],
        "primary": address,
        "me": address,
        "secondary": False,
    }


def hello(context: Context, _command: Command) -> Answer:
    """Describe the server, by its database's clock: no database, no answer."""
    with context.parts.sessions.one() as session:
        now = as_integer(session.row(NOW)[0])
    return {
        "helloOk": True,
        "isWritablePrimary": True,
        "ismaster": True,
        **topology(context),
        "maxBsonObjectSize": MAX_DOCUMENT,
        "maxMessageSizeBytes": MAX_MESSAGE,
        "maxWriteBatchSize": MAX_BATCH,
        "localTime": bson.DatetimeMS(now),
        "logicalSessionTimeoutMinutes": SESSION_MINUTES,
        "connectionId": context.client,
        "minWireVersion": 0,
        "maxWireVersion": WIRE_VERSION,
        "readOnly": False,
        **OK,
    }


def ping(context: Context, _command: Command) -> Answer:
    """Answer, when the database does."""
    with context.parts.sessions.one() as session:
        session.row("SELECT 1")
    return OK


def build_info(_context: Context, _command: Command) -> Answer:
    """Name the release of MongoDB whose protocol this is."""
    version = ".".join(map(str, VERSION[:3]))
    return {"version": version, "versionArray": VERSION, "maxBsonObjectSize": MAX_DOCUMENT, **OK}


def start_session(_context: Context, _command: Command) -> Answer:
    """Name a new session."""
    return {"id": {"id": bson.Binary.from_uuid(uuid.uuid4())}, "timeoutMinutes": SESSION_MINUTES, **OK}


def end_sessions(context: Context, command: Command) -> Answer:
    """End sessions, and roll back what they have open."""
    for session in command.target:
        context.parts.transactions.end_session(bytes(session["id"]))
    return OK


def commit_transaction(context: Context, command: Command) -> Answer:
    """Commit."""
    context.parts.transactions.commit(command)
    return OK


def abort_transaction(context: Context, command: Command) -> Answer:
    """Roll back."""
    context.parts.transactions.abort(command)
    return OK


HANDLERS: dict[str, Handler] = {
    "hello": hello,
    "isMaster": hello,
    "ismaster": hello,
    "ping": ping,
    "buildInfo": build_info,
    "buildinfo": build_info,
    "startSession": start_session,
    "endSessions": end_sessions,
    "killSessions": end_sessions,
    "refreshSessions": ping,
    "commitTransaction": commit_transaction,
    "abortTransaction": abort_transaction,
}
