"""Tables on a terminal of 80 and of 120 columns: what they show of long names, long errors, and many figures.

`python -m tests.cli.test_tables` prints them, to be looked at before they are written into tables/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stanchion.ops.cli import cli

TABLES = (
    *("queues", "workers", "jobs --state dead", "jobs --limit 8", "jobs --queue payments-capture-eu.dead", "errors"),
    *("topics", "lanes mail", "manager status", "streams", "semaphores", "semaphores show payment-provider-eu-west"),
    *("pipeline status tests.cli.wide:etl --once -i 0.1s", "cron", "audit", "alerts --monitor", "top --once -i 0.1s"),
    *("stores", "pipeline plan tests.cli.wide:etl"),
)
WIDTHS = (80, 120)


def drawn(words: str, width: int) -> str:
    """Return what a command prints on a terminal; ids as they would be if all were the same."""
    terminal = {"TTY_COMPATIBLE": "1", "COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}
    given = [] if words.startswith("pipeline") else ["--app", "tests.cli.wide:app"]
    result = CliRunner().invoke(cli, [*words.split(), *given], env=terminal)
    assert isinstance(result.exception, SystemExit | None), result.exception
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
    text = re.sub(r"[0-9a-f]{8}…[0-9a-f]{4}", "01a21895…1863", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "01a21895-cd5e-728b-9aa2-541076011863", text)
    lines = [line.rstrip() for line in text.splitlines()]
    if words == "stores":  # what is below the table is a text
        lines = lines[: lines.index("")]
    if words == "alerts --monitor":
        lines = [line for line in lines if not re.match("NOW|SOON|and |      ", line)]
    return "\n".join(lines) + "\n"


def golden(width: int) -> dict[str, str]:
    """Return the tables as they are to be, by command."""
    text = (Path(__file__).parent / "tables" / f"{width}.txt").read_text()
    parts = re.split(r"^\$ stanchion (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("words", TABLES)
@pytest.mark.parametrize("width", WIDTHS)
def test_each_table_is_as_it_was_looked_at(words: str, width: int) -> None:
    found = drawn(words, width)
    assert found == golden(width)[words]
    assert all(len(line) <= width for line in found.splitlines())


if __name__ == "__main__":
    for words in TABLES:
        print(f"$ stanchion {words}\n{drawn(words, int(sys.argv[1]))}", end="")
