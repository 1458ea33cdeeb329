"""Messages on a client's connection: OP_MSG, and OP_QUERY for the first handshake."""

import socket
import struct
from dataclasses import dataclass, field, replace
from typing import Any

import bson

OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013

MAX_MESSAGE = 48_000_000
MAX_DOCUMENT = 16 * 1024 * 1024

CHECKSUM_PRESENT, MORE_TO_COME = 1, 2
BODY = 0


class ProtocolError(Exception):
    """The client sent what is no message; its connection must be closed."""


@dataclass(frozen=True)
class Command:
    """One request of a client; `sequences` are documents that came beside the body, still encoded."""

    number: int
    raw: bytes
    body: dict[str, Any]
    sequences: dict[str, bytes] = field(default_factory=dict)
    wants_answer: bool = True
    legacy: bool = False

    @property
    def name(self) -> str:
        """The first key of the body."""
        return next(iter(self.body))

    @property
    def target(self) -> Any:
        """The value of the first key: for most commands the name of the collection."""
        return self.body[self.name]

    @property
    def database(self) -> str:
        """The database that the command is for."""
        return str(self.body["$db"])

    @property
    def in_transaction(self) -> bool:
        """Whether the command is part of a transaction."""
        return self.body.get("autocommit") is False

    @property
    def logical_session(self) -> bytes:
        """The id of the client's session."""
        return bytes(self.body["lsid"]["id"])

    def encoded(self, key: str) -> bytes:
        """Return the documents that came under the key, beside the body or inside it."""
        if key in self.sequences:
            return self.sequences[key]
        return b"".join(map(bson.encode, self.body.get(key, ())))

    def without(self, key: str) -> "Command":
        """Return the command with nothing under the key in its body."""
        if key not in self.body:
            return self
        return self.changed({name: value for name, value in self.body.items() if name != key})

    def changed(self, body: dict[str, Any]) -> "Command":
        """Return the command with another body."""
        return replace(self, raw=bson.encode(body), body=body)

    def answered(self, document: bytes) -> bytes:
        """Return the message that answers this one."""
        if self.legacy:
            header = struct.pack("<iiii", 36 + len(document), 0, self.number, OP_REPLY)
            return header + struct.pack("<iqii", 8, 0, 0, 1) + document
        return struct.pack("<iiiiIB", 21 + len(document), 0, self.number, OP_MSG, 0, BODY) + document


def receive(connection: socket.socket) -> Command | None:
    """Wait for a request and return it; None when the client has gone."""
    head = receive_exactly(connection, 16)
    if head is None:
        return None
    length, number, _, operation = struct.unpack("<iiii", head)
    if not 16 < length <= MAX_MESSAGE + 1024:
        raise ProtocolError(f"a message of {length} bytes")
    rest = receive_exactly(connection, length - 16)
    if rest is None:
        return None
    if operation == OP_MSG:
        return read_message(number, rest)
    if operation == OP_QUERY:
        raw = rest[rest.index(b"\0", 4) + 9 :]
        return Command(number, raw, bson.decode(raw), legacy=True)
    raise ProtocolError(f"operation {operation}")


def receive_exactly(connection: socket.socket, size: int) -> bytes | None:
    received = bytearray(size)
    view, count = memoryview(received), 0
    while count < size:
        more = connection.recv_into(view[count:])
        if not more:
            return None
        count += more
    return bytes(received)


def read_message(number: int, rest: bytes) -> Command:
    (flags,) = struct.unpack_from("<I", rest)
    end = len(rest) - 4 if flags & CHECKSUM_PRESENT else len(rest)
    raw, sequences, position = b"", {}, 4
    while position < end:
        kind = rest[position]
        (size,) = struct.unpack_from("<i", rest, position + 1)
        section = rest[position + 1 : position + 1 + size]
        if kind == BODY:
            raw = section
        else:
            name_end = section.index(b"\0", 4)
            sequences[section[4:name_end].decode()] = section[name_end + 1 :]
        position += 1 + size
    return Command(number, raw, bson.decode(raw), sequences, wants_answer=not flags & MORE_TO_COME)
