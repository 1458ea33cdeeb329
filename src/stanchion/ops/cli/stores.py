"""stanchion setup, stores."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.text import Text

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.ops.cli.output import Column
from stanchion.ops.cli.root import STORE, cli
from stanchion.ops.cli.session import Session, command
from stanchion.stores.registry import open_store, shown_url, store_modules

_COLUMNS = [
    Column("STORE"),
    Column("JOINS TX"),
    Column("PUSH WAKE-UP"),
    Column("ATOMIC BATCHES"),
    Column("MANY PROCESSES"),
    Column("INSTALLED", shrinks=True),
]


@command(cli, "setup", panel=STORE, makes_store=True)
def setup(
    session: Session,
    sql: Annotated[bool, typer.Option("--sql", help="Print what would run, and change nothing.")] = False,
) -> None:
    """Make or migrate the schema; safe to repeat, and while workers run."""
    url = session.app.url
    store = open_store(url)
    try:
        if sql:
            script = store.setup_script()
            if session.out.as_json:
                session.out.json({"url": shown_url(url), "sql": script})
            else:
                print(script)
            return
        store.setup()
        store.check()
    finally:
        store.close()
    session.out.done(f"{shown_url(url)} is ready", {"url": shown_url(url), "ready": True})


@command(cli, "stores", panel=STORE)
def stores(session: Session) -> None:
    """Show what each kind of store can do, and whether it is installed."""
    found = [describe(module) for module in store_modules()]
    if session.out.as_json:
        session.out.json_list(found)
        return
    session.out.table(
        _COLUMNS,
        [
            [
                store["name"],
                *map(_mark, (store["joins_transactions"], store["push_wakeup"])),
                *map(_mark, (store["atomic_batches"], store["processes"])),
                Text("yes", "green") if store["installed"] else Text(store["missing"], "yellow"),
            ]
            for store in found
        ],
    )
    for store in found:
        session.out.line("")
        session.out.line(f"{store['name']} is woken by: {store['wakeup']}")
        session.out.line(f"{store['name']} is durable: {store['durable']}")


def describe(module: str) -> dict[str, Any]:
    """Return a store's capabilities, and what is missing to use it."""
    missing = None
    capabilities = import_module(module).CAPABILITIES
    try:
        open_store(f"{capabilities.name}://").close()
    except MissingExtra as error:
        missing = f"pip install 'stanchion[{error.extra}]'"
    except InvalidInput:
        pass  # such a URL names no database; but nothing is missing to open one
    return {**asdict(capabilities), "installed": missing is None, "missing": missing}


def _mark(able: bool) -> Text:
    return Text("yes", "green") if able else Text("no", "bright_black")
