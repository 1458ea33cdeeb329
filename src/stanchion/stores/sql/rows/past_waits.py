"""Past waits as SQL: the statement that ends a wait adds it to the job's; see `rules.lifecycle.past_waits`."""

from __future__ import annotations

from stanchion.stores.rules.lifecycle.past_waits import MORE, WAITS_MAX
from stanchion.stores.sql.engine.dialect import Dialect

_END = "'\n'"
_WAIT = ("waits_kind", "waits_queue", "waits_name", "waits_since")


def with_wait(dialect: Dialect, until: str) -> str:
    """Return the assignment that adds the wait of a parked job, which is over at `until`, to its past ones.

    It precedes the columns that it reads: MariaDB and MySQL assign in the order of the text.
    """
    return f"past_waits = {with_line(dialect, dialect.joined(dialect.array(*_WAIT, until), _END))}"


def with_line(dialect: Dialect, line: str, waits: str = "past_waits") -> str:
    """Return the past waits of a job, `waits`, with a line added in the form of `rules.lifecycle.past_waits`."""
    kept = dialect.joined(f"'{MORE}'", dialect.behind(_END, waits))
    lines = f"length({waits}) - length(replace({waits}, {_END}, ''))"
    before = f"CASE WHEN {lines} >= {WAITS_MAX} THEN {kept} ELSE coalesce({waits}, '') END"
    return dialect.joined(before, line)
