"""stanchion setup, stores."""

from __future__ import annotations

import re
from dataclasses import asdict
from importlib import import_module
from operator import itemgetter
from typing import Annotated, Any

import typer
from rich.text import Text

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.ops.cli.console.output import Cell, Column
from stanchion.ops.cli.console.root import STORE, cli
from stanchion.ops.cli.console.session import Session, command
from stanchion.stores.registry import open_store, shown_url, store_modules

_COLUMNS = [
    Column("STORE"),
    Column("JOINS TX"),
    Column("PUSH WAKE-UP"),
    Column("ATOMIC BATCHES"),
    Column("MANY PROCESSES"),
    Column("FEED", from_width=90),
    Column("INSTALLED"),
    Column("URL", shrinks=True, from_width=100),
]


@command(cli, "setup", panel=STORE, makes_store=True)
def setup(
    session: Session,
    sql: Annotated[bool, typer.Option("--sql", help="Print what would run, and change nothing.")] = False,
) -> None:
    """Create or migrate the schema; safe to repeat, and while workers run."""
    url = session.app.url
    store = open_store(url)
    try:
        if sql:
            script = "".join(f"{_for_client(step)}\n" for step in store.setup(dry_run=True))
            if session.out.as_json:
                session.out.json({"url": shown_url(url), "sql": script})
            else:
                print(script or "-- the tables are up to date")
            return
        store.setup()
        store.check()
    finally:
        store.close()
    session.out.done(f"{shown_url(url)} is ready", {"url": shown_url(url), "ready": True})


def _for_client(step: str) -> str:
    """Format a statement for the database's client program; MariaDB's client sends everything up to the delimiter."""
    if not re.match(r"CREATE\b.* PROCEDURE\b", step):
        return step
    return f"DELIMITER //\n{step.removesuffix(';')} //\nDELIMITER ;"


@command(cli, "stores", panel=STORE)
def stores(session: Session) -> None:
    """Show what each kind of store can do, and whether it is installed."""
    found = sorted((describe(*each) for each in store_modules().items()), key=itemgetter("name"))
    if session.out.as_json:
        session.out.json_list(found)
        return
    session.out.table(_COLUMNS, [_row(store) for store in found])
    for store in found:
        session.out.line("")
        session.out.line(f"{store['name']} is woken by: {store['wakeup']}")
        session.out.line(f"{store['name']} is durable: {store['durable']}")
        if store["extra"]:
            session.out.line(f"{store['name']} needs: pip install 'stanchion[{store['extra']}]'")


def describe(module: str, schemes: list[str]) -> dict[str, object]:
    """Return a store's capabilities, the schemes of its URLs, and the packages missing to use it."""
    missing = None
    capabilities = import_module(module).CAPABILITIES
    try:
        open_store(f"{schemes[0]}://").close()
    except MissingExtra as error:
        missing = f"pip install 'stanchion[{error.extra}]'"
    except InvalidInput:
        pass  # this URL names no database, but the driver is installed
    return {**asdict(capabilities), "schemes": schemes, "installed": missing is None, "missing": missing}


def _row(store: dict[str, Any]) -> list[Cell]:
    able = ("joins_transactions", "push_wakeup", "atomic_batches", "processes")
    urls = " ".join(f"{name}://" for name in store["schemes"])
    return [store["name"], *(_mark(store[name]) for name in able), store["feed"], _mark(store["installed"]), urls]


def _mark(able: bool) -> Text:
    return Text("yes", "green") if able else Text("no", "bright_black")
