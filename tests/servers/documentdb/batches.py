"""Batches of writes, done piece by piece as MongoDB does.

Others see one piece without the next, and a crash leaves those that were done.
"""

from collections.abc import Iterator
from typing import Any

import bson

from tests.servers.documentdb import retrying
from tests.servers.documentdb.backend import Session, Value, document, documents, text
from tests.servers.documentdb.errors import WRITE_CONFLICT, CommandError
from tests.servers.documentdb.wire import Command

KEYS = {"insert": "documents", "update": "updates", "delete": "deletes"}
PIECE = {"insert": 64, "update": 1, "delete": 1}
LENGTH_BYTES = 4


def run(session: Session, command: Command) -> bytes:
    """Run the batch, as one piece in a transaction; return the extension's answers put together."""
    key = KEYS[command.name]
    batch, rest = command.encoded(key), command.without(key)
    if command.in_transaction:
        answer, _ = retrying.write_once(session, rest, rest.name, parameters(rest, batch))
        return answer
    is_ordered = command.body.get("ordered", True)
    together: dict[str, Any] = {}
    for first, piece in split(batch, PIECE[command.name]):
        for place, answer in answers(session, rest, first, piece):
            add(together, bson.decode(answer), place)
            if is_ordered and "writeErrors" in together:
                return bson.encode(together)
    return bson.encode(together)


def answers(session: Session, command: Command, first: int, piece: bytes) -> Iterator[tuple[int, bytes]]:
    """Write a piece as a whole, or one by one if that conflicts; yield the answers, each with its place."""
    if answer := written_whole(session, command, first, piece):
        yield first, answer
        return
    for offset, one in split(piece, 1):
        place = first + offset
        answer, _ = retrying.write(session, command, command.name, parameters(command, one), place=-1 - place)
        yield place, answer


def written_whole(session: Session, command: Command, place: int, piece: bytes) -> bytes:
    """Return the answer, or nothing when it must be written one by one: then also in a repetition."""
    try:
        answer, _ = retrying.write_once(session, command, command.name, parameters(command, piece), place)
    except CommandError as error:
        if error.code != WRITE_CONFLICT:
            raise
        retrying.keep(session, command, place, b"")
        return b""
    return answer


def parameters(command: Command, encoded: bytes) -> tuple[Value, ...]:
    return text(command.database), document(command.raw), documents(encoded)


def split(encoded: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the encoded documents in pieces of up to `size`, each with the place of its first."""
    start = end = count = first = 0
    while end < len(encoded):
        end += int.from_bytes(encoded[end : end + LENGTH_BYTES], "little")
        count += 1
        if count % size == 0 or end == len(encoded):
            yield first, encoded[start:end]
            start, first = end, count


def add(together: dict[str, Any], answer: dict[str, Any], before: int) -> None:
    """Add the answer of a piece that `before` other writes precede."""
    for each in (*answer.get("writeErrors", ()), *answer.get("upserted", ())):
        each["index"] += before
    for name, value in answer.items():
        together[name] = together[name] + value if name in together and name != "ok" else value
