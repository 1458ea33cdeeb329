"""Commands about databases, collections and indexes."""

from tests.servers.documentdb.backend import Value, document, text
from tests.servers.documentdb.context import Answer, Context, Handler
from tests.servers.documentdb.errors import CommandError
from tests.servers.documentdb.wire import Command

NOT_IN_TRANSACTION = 263
OK = {"ok": 1.0}


def call(context: Context, command: Command, statement: str, *values: Value) -> bytes:
    """Run a statement and return its answer; MongoDB allows only few of these commands in a transaction."""
    if command.in_transaction and command.name not in ("create", "createIndexes"):
        raise CommandError(NOT_IN_TRANSACTION, f"{command.name} can't be run in a transaction")
    with context.session(command) as session:
        (answer,) = session.row(statement, *values)
    return answer


def with_command(statement: str) -> Handler:
    """Return the handler of a command that the extension reads and answers itself."""

    def handle(context: Context, command: Command) -> Answer:
        return call(context, command, statement, text(command.database), document(command.raw))

    return handle


def drop(context: Context, command: Command) -> Answer:
    """Drop a collection."""
    statement = "SELECT documentdb_api.drop_collection($1, $2)"
    call(context, command, statement, text(command.database), text(command.target))
    return OK


def drop_database(context: Context, command: Command) -> Answer:
    """Drop a database."""
    call(context, command, "SELECT documentdb_api.drop_database($1)", text(command.database))
    return {"dropped": command.database, **OK}


def modify_collection(context: Context, command: Command) -> Answer:
    """Change the options of a collection or of an index."""
    statement = "SELECT documentdb_api.coll_mod($1, $2, $3)"
    return call(context, command, statement, text(command.database), text(command.target), document(command.raw))


def collection_statistics(context: Context, command: Command) -> Answer:
    """Return sizes of a collection."""
    statement = "SELECT documentdb_api.coll_stats($1, $2)"
    return call(context, command, statement, text(command.database), text(command.target))


def database_statistics(context: Context, command: Command) -> Answer:
    """Return sizes of a database."""
    return call(context, command, "SELECT documentdb_api.db_stats($1)", text(command.database))


def list_databases(context: Context, command: Command) -> Answer:
    """List the databases."""
    return call(context, command, "SELECT documentdb_api.list_databases($1)", document(command.raw))


HANDLERS: dict[str, Handler] = {
    "create": with_command("SELECT documentdb_api.create_collection_view($1, $2)"),
    "createIndexes": with_command("SELECT documentdb_api_internal.create_indexes_non_concurrently($1, $2, true)"),
    "dropIndexes": with_command("CALL documentdb_api.drop_indexes($1, $2)"),
    "drop": drop,
    "dropDatabase": drop_database,
    "collMod": modify_collection,
    "collStats": collection_statistics,
    "dbStats": database_statistics,
    "listDatabases": list_databases,
}
