"""Serves clients: one thread for each connection."""

import itertools
import socket
import threading

import bson

from tests.servers.documentdb import capping, defining, housekeeping, reading, writing
from tests.servers.documentdb.backend import Sessions
from tests.servers.documentdb.capped import CappedCollections
from tests.servers.documentdb.context import Answer, Context, Like, Parts
from tests.servers.documentdb.cursors import Cursors
from tests.servers.documentdb.errors import WRITE_CONFLICT, BackendLost, CommandError
from tests.servers.documentdb.tailing import Tails
from tests.servers.documentdb.transactions import Transactions
from tests.servers.documentdb.wire import Command, ProtocolError, receive

COMMAND_NOT_FOUND = 59
HANDLERS = {
    **housekeeping.HANDLERS,
    **reading.HANDLERS,
    **writing.HANDLERS,
    **defining.HANDLERS,
    **capping.HANDLERS,
}


class Gateway:
    """The connections of all clients."""

    def __init__(self, address: str) -> None:
        sessions = Sessions(address)
        self._parts = Parts(sessions, Transactions(sessions), Cursors(), CappedCollections(sessions), Tails(sessions))
        self._numbers = itertools.count(1)

    def listen(self, port: int, like: Like) -> None:
        """Take connections on a loopback port, for ever."""
        with socket.create_server(("127.0.0.1", port), backlog=512) as server:
            while True:
                connection, _ = server.accept()
                context = Context(self._parts, next(self._numbers), port, like)
                threading.Thread(target=self._serve, args=(connection, context), daemon=True).start()

    def _serve(self, connection: socket.socket, context: Context) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            try:
                while (command := receive(connection)) is not None:
                    answer = encoded_answer(context, command)
                    if command.wants_answer:
                        connection.sendall(command.answered(answer))
            except (OSError, ProtocolError, BackendLost):
                pass  # the connection is closed, which tells the client enough
            finally:
                self._parts.transactions.end_client(context.client)


def encoded_answer(context: Context, command: Command) -> bytes:
    try:
        answer = execute(context, command)
    except CommandError as error:
        answer = error.answer(in_transaction=command.in_transaction)
    return answer if isinstance(answer, bytes) else bson.encode(answer)


def execute(context: Context, command: Command) -> Answer:
    """Run a command; a conflict outside of a transaction is the server's to solve, by trying again."""
    handler = HANDLERS.get(command.name)
    if handler is None:
        raise CommandError(COMMAND_NOT_FOUND, f"no such command: '{command.name}'")
    while True:
        try:
            return handler(context, command)
        except CommandError as error:
            if error.code != WRITE_CONFLICT or command.in_transaction:
                raise
