"""Commands that write documents."""

import bson

from tests.servers.documentdb import batches, retrying
from tests.servers.documentdb.backend import document, text
from tests.servers.documentdb.context import Answer, Context, Handler
from tests.servers.documentdb.errors import code_of, name_of, unpacked
from tests.servers.documentdb.wire import Command


def write(context: Context, command: Command) -> Answer:
    """Insert, update or delete."""
    with context.session(command) as session:
        answer = batches.run(session, command)
    return with_codes(context, command, answer)


def with_codes(context: Context, command: Command, answer: bytes) -> Answer:
    """Give write errors the codes of MongoDB, where they also end the transaction."""
    if b"writeErrors" not in answer:
        return answer
    decoded = bson.decode(answer)
    for error in decoded.get("writeErrors", ()):
        error["code"] = code_of(unpacked(error["code"]))
        error["codeName"] = name_of(error["code"])
        if command.in_transaction:
            context.parts.transactions.forget(command)
    return decoded


def find_and_modify(context: Context, command: Command) -> Answer:
    """Change or delete one document, and return it."""
    values = text(command.database), document(command.raw)
    with context.session(command) as session:
        answer, _ = retrying.write(session, command, "find_and_modify", values)
    return answer


HANDLERS: dict[str, Handler] = {
    "insert": write,
    "update": write,
    "delete": write,
    "findAndModify": find_and_modify,
    "findandmodify": find_and_modify,
}
