"""One walk through the commands on PostgreSQL; what they do is the same on every store."""

from pathlib import Path
from typing import Any

from stanchion.core.ids import new_id
from tests.cli.conftest import Run


def test_smoke(run: Run, process: Run, pg_url: str, shop: str, tmp_path: Path) -> None:
    def on_postgres(*args: str, code: int = 0) -> Any:
        answer = run(*args, "--json", STANCHION_URL=pg_url)
        assert answer.code == code, answer.err
        return answer.json if answer.out else answer.error

    assert "stanchion setup" in on_postgres("jobs", code=1)
    assert "CREATE TABLE" in on_postgres("setup", "--sql")["sql"]
    on_postgres("setup")
    on_postgres("setup")
    on_postgres("push", "--app", shop, "--task", "welcome", "--arg", "1")
    on_postgres("push", "--app", shop, "--task", "charge", "--arg", "1")
    lines = tmp_path / "calls.jsonl"
    lines.write_text("".join(f"[{user}]\n" for user in range(1_500)))
    on_postgres("push", "mail", "--task", "welcome", "--file", str(lines))
    assert process("worker", shop, "--until-empty", STANCHION_URL=pg_url).code == 0
    mail, orders = on_postgres("queues")
    assert (mail["counts"]["committed"], orders["counts"]["buried"]) == (1_501, 1)
    (dead,) = on_postgres("jobs", "--state", "dead")
    assert on_postgres("show", dead["id"])["errors"][0]["error"] == "ValueError: no money for 1"
    on_postgres("show", new_id(), code=1)
    on_postgres("show", "42", code=2)
    on_postgres("replay", dead["id"])
    on_postgres("retry", "--queue", "orders")
    on_postgres("pause", "orders")
    on_postgres("top", "--once", "--interval", "0.1")
    on_postgres("cancel", "--queue", "orders")
    on_postgres("workers", code=1)
    on_postgres("bench", "--jobs", "200", "--samples", "5")
    on_postgres("queues", "delete", "orders")
