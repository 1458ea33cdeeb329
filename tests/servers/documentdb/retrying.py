"""Writes that a client may repeat: each is done once, and its answer kept in the same transaction."""

import random
import time

from tests.servers.documentdb.backend import Session, Value, integer
from tests.servers.documentdb.errors import WRITE_CONFLICT, CommandError
from tests.servers.documentdb.wire import Command

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.64
SCHEMA = """
CREATE TABLE IF NOT EXISTS gateway.answers (
    session bytea, number int8, place int8, answer bytea, PRIMARY KEY (session, number, place)
)
"""
FIND = "SELECT answer FROM gateway.answers WHERE session = $1 AND number = $2 AND place = $3"
KEEP = "INSERT INTO gateway.answers VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"


def write(
    session: Session, command: Command, function: str, values: tuple[Value, ...], place: int = 0
) -> tuple[bytes, bool]:
    """Do as `write_once`, and again after a deadlock: outside of a transaction that is not the client's to solve."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return write_once(session, command, function, values, place)
        except CommandError as error:
            if error.code != WRITE_CONFLICT or command.in_transaction:
                raise
            # Longer and longer, or the same writers would meet again and again on a busy machine.
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def write_once(
    session: Session, command: Command, function: str, values: tuple[Value, ...], place: int = 0
) -> tuple[bytes, bool]:
    """Run one of the extension's functions that write; return the answer, and whether it is an old one.

    `place` tells apart the writes of a command.
    """
    if not is_repeatable(command):
        (answer,) = session.row(f"SELECT p_result FROM {call(function, 1, values)}", *values)
        return answer, False
    statement = f"""
        WITH done AS MATERIALIZED (SELECT p_result FROM {call(function, 4, values)})
        INSERT INTO gateway.answers SELECT $1, $2, $3, p_result::bytea FROM done RETURNING answer
    """
    try:
        (answer,) = session.row(statement, *key(command, place), *values)
    except CommandError:
        known = session.row(FIND, *key(command, place))
        if not known:
            raise
        return known[0], True
    return answer, False


def keep(session: Session, command: Command, place: int, answer: bytes) -> None:
    """Let a repetition of the command, if it can be repeated, have this answer."""
    if is_repeatable(command):
        session.row(KEEP, *key(command, place), ("bytea", answer))


def is_repeatable(command: Command) -> bool:
    return "txnNumber" in command.body and not command.in_transaction


def key(command: Command, place: int) -> tuple[Value, Value, Value]:
    return ("bytea", command.logical_session), integer(command.body["txnNumber"]), integer(place)


def call(function: str, first: int, values: tuple[Value, ...]) -> str:
    parameters = (f"${number}" for number in range(first, first + len(values)))
    return f"documentdb_api.{function}({', '.join(parameters)}, NULL)"
