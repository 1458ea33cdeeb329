"""stanchion rates."""

from __future__ import annotations

from typing import Annotated

import typer

from stanchion.context.declarations.rates import delete_rate, reset_rate, set_rate, stored_rates
from stanchion.errors import InvalidInput
from stanchion.jobs.options import checked_rate_name, per_second_of, spelled_rate
from stanchion.ops.cli.console.output import Cell, Column
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import ROWS, Rows
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.stores.rules.capacity.declared_rates import StoredRate

rates_cli = typer.Typer(help="List declared rates; change, reset and delete them.")
cli.add_typer(rates_cli, name="rates", rich_help_panel=LOOK)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The rate: key:stripe, task:shop.pay or queue:hooks.")]

_COLUMNS = [
    Column("RATE", shrinks=True, keeps_ends=True),
    Column("IN FORCE", right=True),
    Column("DECLARED", right=True),
]


@command(rates_cli, group=True)
def rates(session: Session, limit: Rows = ROWS) -> Exit:
    """List declared rates; change, reset and delete them.

    IN FORCE applies to all jobs that share the rate, DECLARED is what code declared last.
    """
    found, out = session.app.rates(), session.out
    if out.as_json:
        out.json_list(row._asdict() for row in found)
    elif found:
        out.first(_COLUMNS, list(map(_row, found)), limit)
    else:
        out.say("no declared rates: app.rate(key, '20/s') or @app.task(rate='20/s') in the code declares one")
    return Exit.OK if found else Exit.FAILED


@command(rates_cli, "set")
def change(
    session: Session,
    name: Name,
    rate: Annotated[str, typer.Argument(metavar="RATE", help="Starts of jobs, such as 20/s, 100/m, 5000/h or 10/d.")],
    new: Annotated[bool, typer.Option("--new", help="Create it if it does not exist.")] = False,
) -> None:
    """Set a rate for all processes. It stays when processes start, until code declares another rate than before."""
    per_second = per_second_of(rate)
    before = None if new else _known(session, name)
    spelled = spelled_rate(per_second)
    session.audit("set rate", name, note=f"→ {spelled}" if before is None else f"{_spelled(before)} → {spelled}")
    set_rate(session.app.store, checked_rate_name(name), per_second)
    session.out.done(f"{name}: {spelled}", {"name": name, "per_second": per_second})


@command(rates_cli, "reset")
def reset(session: Session, name: Name) -> None:
    """Reset a rate to what code declared last."""
    _known(session, name)
    session.audit("reset rate", name)
    per_second = reset_rate(session.app.store, name)
    session.out.done(f"{name}: {spelled_rate(per_second)}", {"name": name, "per_second": per_second})


@command(rates_cli, "delete")
def delete(session: Session, name: Name) -> None:
    """Delete a rate; the jobs that share it go by their own. Code that still declares it stores it again."""
    known = _known(session, name)
    session.audit("delete rate", name, note=f"was {_spelled(known)}")
    delete_rate(session.app.store, name)
    session.out.done(f"{name}: deleted", {"name": name, "deleted": True})


def _known(session: Session, name: str) -> StoredRate:
    """Return an existing rate. Raises InvalidInput for an unknown name."""
    for known in stored_rates(session.app.store, [name]):
        return known
    names = ", ".join(one.name for one in stored_rates(session.app.store))
    raise InvalidInput(
        f"no declared rate {name!r} (known: {names or 'none'}); `stanchion rates set --new {name} 20/s` creates one"
    )


def _spelled(rate: StoredRate) -> str:
    return "unreadable" if rate.per_second is None else spelled_rate(rate.per_second)


def _row(rate: StoredRate) -> list[Cell]:
    return [rate.name, _spelled(rate), "" if rate.declared is None else spelled_rate(rate.declared)]
